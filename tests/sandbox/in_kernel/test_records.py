from __future__ import annotations

import json
import tracemalloc
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Span


@pytest.fixture(scope="module")
def make_handle(make_body):
    """Return `make(*documents)`, which opens a handle over documents of the given kinds."""
    return lambda *documents: Handle(make_body(*((f"d{n}", *one) for n, one in enumerate(documents))))


VALUES = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats(allow_nan=False)
    | st.text(alphabet='aé世🙂"\\\n,]'),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=60)
@given(st.lists(VALUES, max_size=8), st.booleans(), st.sampled_from([None, 1, 4]))
def test_json_rows_come_back_with_exact_spans(
    make_handle, values: list[Any], as_lines: bool, indent: Any
) -> None:
    """The rows come from JSONL and JSON arrays, lazily."""
    if as_lines:
        text = "".join(json.dumps(value, ensure_ascii=False) + "\n" for value in values)
    else:
        text = json.dumps(values, ensure_ascii=False, indent=indent)
    handle = make_handle(("jsonl" if as_lines else "json", text), ("text", "after"))
    rows = list(handle.read_records())
    assert [row.value for row in rows] == values
    assert [row.error for row in rows] == [None] * len(values)
    for row in rows:
        assert json.loads(text[row.start : row.end]) == row.value
        assert text[row.start : row.end].strip() == text[row.start : row.end]


def test_rows_of_many_windows(make_handle) -> None:
    rows = [{"id": number, "text": "слово " * (number % 70), "n": number * 1.5} for number in range(9_000)]
    for kind, text in (
        ("jsonl", "\r\n".join(json.dumps(row, ensure_ascii=False) for row in rows)),
        ("json", json.dumps(rows, ensure_ascii=False, indent=2)),
        ("json", "\n [" + ",".join(json.dumps(row, ensure_ascii=False) for row in rows) + "]\n"),
    ):
        assert len(text) > 1 << 20
        handle = make_handle(("markdown", "# Before 世界"), (kind, text))
        found = list(handle.read_records())
        assert [row.value for row in found] == rows
        assert handle.peek(found[-1].start, found[-1].end).startswith("{")
        assert {row.document for row in found} == {"d1"}


def test_numbers_are_not_cut_by_a_window(make_handle) -> None:
    numbers = [10**15 + at for at in range(150_000)]
    assert [row.value for row in make_handle(("json", json.dumps(numbers))).read_records()] == numbers


@pytest.mark.parametrize("left", range(3, 12))
def test_a_number_cut_at_any_place_is_whole(make_handle, left: int) -> None:
    """`1`, `1.`, `1.5`, `1.5e` and `1.5e-` each parse as a value, and not as the right one."""
    values = ["x" * ((1 << 20) - left), 1.5e-7, 2]
    assert [row.value for row in make_handle(("json", json.dumps(values))).read_records()] == values


def test_a_large_element_is_read_whole(make_handle) -> None:
    values = ["x" * 3_000_000, {"a": ["é" * 2_500_000]}, 1]
    assert [row.value for row in make_handle(("json", json.dumps(values))).read_records()] == values


def test_csv_rows_by_their_header(make_handle) -> None:
    """Each row of the CSV has its span."""
    text = 'name,note\r\nAda,"says ""hi""\nand, leaves"\r\n\r\nБоб,世界\r\nshort\r\nlong,1,2\r\n'
    handle = make_handle(("markdown", "# x\n"), ("csv", text))
    rows = list(handle.read_records())
    assert [row.value for row in rows] == [
        {"name": "Ada", "note": 'says "hi"\nand, leaves'},
        {"name": "Боб", "note": "世界"},
        {"name": "short"},
        {"name": "long", "note": "1"},
    ]
    assert [row.error for row in rows] == [
        None,
        None,
        "1 fields, the header has 2",
        "3 fields, the header has 2",
    ]
    assert handle.peek(rows[0].start, rows[0].end) == 'Ada,"says ""hi""\nand, leaves"\r\n'
    assert handle.peek(rows[1].start, rows[1].end).strip() == "Боб,世界"


@pytest.mark.parametrize("delimiter", [";", "\t", "|"])
def test_other_delimiters_are_detected_from_the_header(make_handle, delimiter: str) -> None:
    text = f"a{delimiter}b\n1{delimiter}2,5\n"
    assert [row.value for row in make_handle(("csv", text)).read_records()] == [{"a": "1", "b": "2,5"}]


def test_a_bad_line_is_reported_and_the_rest_is_read(make_handle) -> None:
    text = '{"a": 1}\n{"a": \n\n[' + "[" * 100_000 + '\n{"a": 2}\n'
    rows = list(make_handle(("jsonl", text)).read_records())
    assert [row.value for row in rows] == [{"a": 1}, None, None, {"a": 2}]
    assert rows[1].error.startswith("not JSON: Expecting value")
    assert rows[2].error == "not readable: nested too deeply"
    assert rows[1].start == 9


def test_a_csv_field_too_large_is_reported(make_handle) -> None:
    text = 'a,b\n"' + "x" * 200_000 + '",1\n2,3\n'
    rows = list(make_handle(("csv", text)).read_records())
    assert rows[0].error.startswith("not CSV: field larger")
    assert rows[-1].value == {"a": "2", "b": "3"}


@pytest.mark.parametrize(
    ("text", "values", "error"),
    [
        ("[1, 2, oops, 4]", [1, 2, None], "not JSON at character 7: Expecting value"),
        ('[1, "open', [1, None], "not JSON at character 4: Unterminated string"),
        ('[{"a": 1} {"b": 2}]', [{"a": 1}, None], "not JSON at character 10: ',' or ']' has to come next"),
        ("[1, 2", [1, 2, None], "not JSON at character 5: ',' or ']'"),
        ("[1, ]", [1, None], "not JSON at character 4: Expecting value"),
        ('{"whole": [1]}', [{"whole": [1]}], None),
        ('{"a": 1}\n{"a": 2}\n\n[3]\n', [{"a": 1}, {"a": 2}, [3]], None),
        ('{"a": 1} and more', [{"a": 1}, None], "not JSON at character 9: Expecting value"),
        ("[] 5", [None], "not JSON at character 3: nothing may come after the array"),
        ("[1, 2] [3]", [1, 2, None], "not JSON at character 7: nothing may come after the array"),
        ("", [], None),
        ("[]", [], None),
        (" \n ", [], None),
    ],
)
def test_a_json_document_that_is_no_clean_array(
    make_handle, text: str, values: list, error: str | None
) -> None:
    rows = list(make_handle(("json", text)).read_records())
    assert [row.value for row in rows] == values
    if error:
        assert rows[-1].error.startswith(error)
        assert rows[-1].end == len(text)


def test_an_error_far_from_the_end_does_not_load_the_rest(make_handle) -> None:
    handle = make_handle(("json", '[{"a": 1}, {"a" 2}, ' + '{"a": "xxxxxxxxxxxxxxxx"}, ' * 900_000 + "1]"))
    tracemalloc.start()
    rows = list(handle.read_records())
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert [row.value for row in rows] == [{"a": 1}, None]
    assert peak < 12_000_000


def test_plain_text_that_holds_rows_is_read_as_such(make_handle) -> None:
    assert [r.value for r in make_handle(("text", '{"a": 1}\n{"a": 2}')).read_records()] == [
        {"a": 1},
        {"a": 2},
    ]
    assert [r.value for r in make_handle(("text", '\n[\n{"a": 1}]')).read_records()] == [{"a": 1}]
    table = 'day;who;"what; said"\n1;Ann;"two\nlines"\n2;Bo;\n'
    assert [r.value for r in make_handle(("text", table)).read_records()] == [
        {"day": "1", "who": "Ann", "what; said": "two\nlines"},
        {"day": "2", "who": "Bo", "what; said": ""},
    ]
    long = "key,name,note\n" + 'k,n,"a note, of some length"\n' * 10_000
    assert sum(len(row.value) == 3 for row in make_handle(("text", long)).read_records()) == 10_000


@pytest.mark.parametrize(
    "text",
    [
        "prose",
        "[note] this is prose",
        "{not json}",
        "",
        "7\n8\n",
        "a, b, c\nand one more",
        "Dear all,\n\nred, white, blue\nred, white and blue, all three\n",
        "1,2,3\n4,5,6\n7,8,9\n",
        "2026-01-01,INFO,up\n2026-01-02,INFO,down\n2026-01-03,INFO,up\n",
        "a,a,a\nb,b,b\nc,c,c\n",
        "x,y,z" + "\0" * 10,
    ],
)
def test_a_context_without_rows_is_refused_with_advice(make_handle, text: str) -> None:
    with pytest.raises(
        ValueError, match=r"no document here holds .*kinds: markdown, text.*use read_lines\(\)"
    ):
        make_handle(("text", text), ("markdown", '{"a": 1}')).read_records()


def test_rows_can_be_read_again(make_handle) -> None:
    rows = make_handle(("jsonl", "1\n2\n3\n")).read_records()
    assert next(rows).value == 1
    assert [row.value for row in rows] == [1, 2, 3]
    assert [row.value for row in rows] == [1, 2, 3]
    assert next(rows).value == 2
    assert "d0 (jsonl)" in repr(rows)
    assert len(repr(rows)) < 300


def test_rows_are_logged_as_read_while_they_are_handed_out(make_handle) -> None:
    handle = make_handle(("jsonl", "[1]\n[2]\n[3]\n"))
    rows = handle.read_records()
    handle.drain_access()
    next(rows)
    next(rows)
    assert handle.drain_access() == ((Span(0, 7),), ())


@pytest.mark.parametrize(
    ("kind", "text"),
    [
        ("jsonl", '{"a": 1}\n\n{"a": 2}\n' * 50_000),
        ("json", '[ {"a": 1}, {"a": 2}\n]\n'),
        ("csv", "a,b\n1,2\n\n3,4\n"),
    ],
)
def test_who_goes_through_all_rows_of_data_has_read_all(make_handle, kind: str, text: str) -> None:
    """Coverage is exact, whatever is between two rows and however many there are."""
    handle = make_handle((kind, text), ("text", "prose"))
    assert sum(1 for _ in handle.read_records()) > 1
    assert handle.drain_access() == ((Span(0, len(text)),), ())


def test_a_field_of_the_data_is_named_where_it_is(make_handle) -> None:
    """A row is not the dict of its fields. The error says where they are."""
    [row] = make_handle(("jsonl", '{"status": "paid"}\n')).read_records()
    with pytest.raises(KeyError, match=r"'status' is a field of this row's value: .value\['status'\]"):
        row["status"]
    with pytest.raises(KeyError, match=r".value\['status'\]"):
        row.get("status")
    assert (row.get("value"), row.get("other"), row.get("other", 5)) == ({"status": "paid"}, None, 5)
    with pytest.raises(AttributeError, match=r".value\['status'\]"):
        _ = row.status
    with pytest.raises(KeyError, match=r"there is no field 'other'. The fields are value, start"):
        row["other"]
