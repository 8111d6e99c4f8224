from __future__ import annotations

import copy
import json
import pickle
import random
from collections.abc import Mapping
from pathlib import Path

import pytest

from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.host.requests import cell_report
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.access_log import MAX_SPANS, AccessLog
from rlm.sandbox.in_kernel.handle import Handle
from rlm.sandbox.text.body import Span

STORY = "Call me Ishmael.\r\nSome years ago — never mind how long — 世界 🙂\n\nThe needle is 4711.\nlast line"
CODE = """import os


class Whale:
    size = 1

    def dive(self):
        if deep:
            return 2


x = 1
"""
GUIDE = "# Guide\nintro\n\n## Setup\nrun it\n### Notes\nbeware\n## Use\nthe end\n"


@pytest.fixture
def story(make_handle) -> Handle:
    return make_handle(STORY)


def test_context_meta_is_bounded_and_says_what_a_full_pass_takes(make_handle) -> None:
    text = "word " * 10_000
    plain = make_handle(text).context_meta()
    assert (plain.chars, plain.bytes, plain.lines, plain.documents) == (50_000, 50_000, 1, 1)
    assert (plain.preview, plain.tail_preview) == (text[:500], text[-500:])
    assert (plain.recommended_chunk, plain.calls, plain.cost_usd) == (20_000, 3, None)
    planned = make_handle(text, plan=lambda: {"recommended_chunk": 9_000, "calls": 6, "cost_usd": 0.5})
    meta = planned.context_meta()
    assert (meta["recommended_chunk"], meta.calls, meta.cost_usd) == (9_000, 6, 0.5)
    assert len(repr(meta)) < 1_000


def test_documents_are_listed(make_handle) -> None:
    handle = make_handle(("a.md", "markdown", "one\n"), ("b.py", "code", "two"))
    assert handle.documents() == [
        {"index": 0, "name": "a.md", "kind": "markdown", "start": 0, "end": 4},
        {"index": 1, "name": "b.py", "kind": "code", "start": 4, "end": 7},
    ]
    assert len(repr(make_handle(*["x"] * 2000).documents())) < 1_000


@pytest.mark.parametrize("start", [0, 3, 17, 40, -1, -20, 10_000, -10_000])
@pytest.mark.parametrize("end", [0, 9, 18, 50, -3, 10_000, -10_000])
def test_peek_is_a_clamped_slice_that_knows_its_span(story: Handle, start: int, end: int) -> None:
    found = story.peek(start, end)
    assert found == STORY[start:end]
    assert isinstance(found, str)
    assert isinstance(found.span, Span)
    assert STORY[found.span.start : found.span.end] == found
    lines = STORY.splitlines(keepends=True)
    by_line = story.peek(start, end, unit="lines")
    assert by_line == "".join(lines[start:end])
    assert STORY[by_line.span.start : by_line.span.end] == by_line


def test_a_negative_offset_alone_reads_to_the_end(story: Handle) -> None:
    assert story.peek(-7) == STORY[-7:]
    assert story.peek(-2, unit="lines") == "".join(STORY.splitlines(keepends=True)[-2:])
    assert story.peek(-len(STORY) - 1) == STORY


def test_peek_refuses_with_advice(story: Handle, make_handle) -> None:
    """Any other unit is a ValueError. The error for more than max_peek advises chunk."""
    with pytest.raises(ValueError, match=r"unit='words' is not a unit: use 'chars' or 'lines'"):
        story.peek(0, 5, "words")
    with pytest.raises(TypeError, match="start is a whole number, not float"):
        story.peek(1.5, 5)
    with pytest.raises(TypeError, match=r"end is missing: peek\(start, end\), or around\(offset\)"):
        story.peek(0)
    with pytest.raises(TypeError, match=r"start is one place: .* a document or its name, not float"):
        story.peek(1.5)
    big = make_handle("é" * 100_001)
    assert len(big.peek(0, 100_000)) == 100_000
    for unit in ("chars", "lines"):
        with pytest.raises(
            ValueError, match=r"100,001 characters, more than 100,000 .*use chunk\(\) or read_lines"
        ):
            big.peek(0, 100_001, unit)


def fields_of(**fields: object) -> dict[str, object]:
    return fields


def test_records_are_dicts_and_attributes(story: Handle) -> None:
    hit = story.search("needle")[0]
    chunk = story.chunk(40)[1]
    for record in (hit, chunk, story.context_meta(), story.documents()[0]):
        plain = {key: record[key] for key in record}
        assert isinstance(record, Mapping)
        assert {**record} == dict(record) == dict(record.items()) == plain
        assert dict(zip(record.keys(), record.values(), strict=True)) == plain
        assert json.loads(json.dumps(record)) == plain
        assert json.loads(json.dumps([record], indent=1)) == [plain]
        assert record.get("start") == plain.get("start")
        assert record.get("nothing", 5) == 5
        assert "nothing" not in record
        assert copy.deepcopy(record) == copy.copy(record) == record.copy() == plain
        assert pickle.loads(pickle.dumps(record)) == plain
        assert (record | {"x": 1}) == {**plain, "x": 1}
        assert ({"x": 1} | record) == {"x": 1, **plain}
        assert (record == plain) is not (record != plain)
        for key, value in plain.items():
            assert getattr(record, key) == value
        with pytest.raises(AttributeError, match=r"there is no field 'nothing'. The fields are "):
            _ = record.nothing
        with pytest.raises(KeyError, match=r"there is no field 'nothing'. The fields are "):
            record["nothing"]
        with pytest.raises(KeyError, match=r"there is no field 0. The fields are "):
            record[0]
        assert fields_of(**record) == plain
    assert hit.pop("match") == "needle"
    assert "match" not in hit
    hit["mine"] = 1
    assert (hit.mine, hit.pop("no", 2)) == (1, 2)


def test_a_text_is_an_ordinary_str(story: Handle) -> None:
    text = story.peek(0, 16)
    assert (text + "!", text.upper(), type(text[2:])) == ("Call me Ishmael.!", "CALL ME ISHMAEL.", str)
    assert json.dumps(text) == '"Call me Ishmael."'
    assert pickle.loads(pickle.dumps(text)).span == text.span == (0, 16)


def test_records_print_short(make_handle) -> None:
    """Printed records are short."""
    handle = make_handle("word " * 100_000)
    for shown in (
        handle.chunk()[0],
        handle.chunk(),
        handle.chunk()[3:],
        handle.read_lines(),
        handle.read_lines()[0],
        handle.search("word", context=5000),
        list(handle.chunk()[:2]),
        handle.chunk_coverage([]),
    ):
        assert len(repr(shown)) < 4_000, shown
    assert "(20,000 characters)" in repr(handle.chunk()[0])


def test_around_gives_whole_lines(story: Handle, make_handle) -> None:
    """The call is `around(hit_or_offset, lines=3)`."""
    lines = STORY.splitlines(keepends=True)
    [hit] = story.search("needle")
    assert story.around(hit, lines=0) == lines[3]
    assert story.around(hit, lines=1) == "".join(lines[2:5])
    for where in (hit.start, (hit.start, hit.end), hit.match, Span(hit.start, hit.end), story.around(hit, 0)):
        assert story.around(where) == "".join(lines[0:])
    assert story.around(story.chunk(40)[1], lines=0) == "".join(lines[1:4])
    assert story.around(-1, 0) == story.around(10**9, 0) == "last line"
    assert story.around(hit, -5) == lines[3]
    assert make_handle("").around(0) == ""
    with pytest.raises(TypeError, match=r"search\(\) or quote\(\) finds the place of a text"):
        story.around("needle")
    with pytest.raises(ValueError, match="more than 100,000 at once"):
        make_handle("x" * 100_001).around(5)


def test_a_section_is_looked_for_far_up_and_never_into_another_document(make_handle) -> None:
    filler = ("#no heading, " * 30 + "é\n") * 900
    handle = make_handle(
        ("a.md", "markdown", "# Far\n" + filler + "x" * 300_000 + "# not\n"), ("b.md", "markdown", filler)
    )
    end = handle.documents()[0].end
    assert handle.documents()[0].text.startswith("# Far")
    with pytest.raises(ValueError, match=f"that would be {end:,} characters"):
        handle.around(end - 1, by="section")
    with pytest.raises(ValueError, match=f"that would be {len(filler):,} characters"):
        handle.around(end + len(filler) - 1, by="section")
    with pytest.raises(ValueError, match="empty"):
        make_handle("").around(0, by="section")


def test_read_all_is_bounded(story: Handle, make_handle) -> None:
    """The limit is 20,000,000 characters. The error names the lazy readers."""
    assert story.read_all() == STORY
    assert make_handle("").read_all() == ""
    big = make_handle("x" * 20_000_001)
    with pytest.raises(ValueError, match=r"20,000,001 characters.*read_lines\(\) or chunk\(\).*count\(\)"):
        big.read_all()


def test_a_quote_is_looked_for_in_what_can_be_read_at_once(make_handle) -> None:
    handle = make_handle("x" * 20_000_001)
    quote = f'it says "{"x" * 30}"'
    assert handle.quoted(quote, Span(5, 20_000_001)) == (5, 35)
    assert handle.quoted(quote, Span(0, 20_000_001)) is None


def test_count_is_exact(make_handle) -> None:
    handle = make_handle("the cat\nThe dog — the bird\n" * 700)
    assert [handle.count(p) for p in ("the", "(?i)the", r"\bthe\b", "^", "zebra")] == [
        1400,
        2100,
        1400,
        1401,
        0,
    ]


def test_what_was_handed_out_is_logged(make_handle) -> None:
    """Read is text that the cell got; scanned is text that a search looked through."""
    handle = make_handle("line\n" * 1000)
    assert handle.drain_access() == ((), ())
    handle.peek(10, 20)
    handle.peek(15, 30)
    handle.chunk(100)
    repr(handle.read_lines()[400:])
    assert handle.drain_access() == ((Span(10, 30),), ())
    hits = handle.search("line", max_hits=3)
    assert handle.drain_access() == ((), (Span(0, 14),))
    _ = hits[2].match
    assert handle.drain_access() == ((Span(10, 14),), ())
    handle.count("nothing")
    assert handle.drain_access() == ((), (Span(0, 5000),))
    for _ in handle.read_lines(2, 4):
        pass
    _ = handle.chunk(100)[20].text
    assert handle.drain_access() == ((Span(10, 20), Span(2000, 2100)), ())
    repr(handle.chunk(5000))
    repr(handle.chunk(5000)[0])
    assert handle.drain_access() == ((Span(0, 200),), ())
    assert sum(1 for _ in handle.read_lines()) == 1000
    assert handle.drain_access() == ((Span(0, 5000),), ())


def test_the_log_is_bounded_and_never_tells_too_much() -> None:
    """Sequential reading costs no memory. Of too many scattered spans the longest are reported."""
    log = AccessLog()
    for at in range(0, 1_000_000, 10):
        log.read(at, at + 10)
    assert log._read == [Span(0, 1_000_000)]
    log.drain()
    places = list(range(0, 10 * MAX_SPANS + 100_000, 10))
    random.Random(1).shuffle(places)
    for at in places:
        log.scanned(at, at + 1 + at // 10 % 5)
        assert len(log._scanned) <= 2 * MAX_SPANS
    _, scanned = log.drain()
    assert len(scanned) == MAX_SPANS
    assert list(scanned) == sorted(scanned)
    assert all(start % 10 == 0 and end == start + 1 + start // 10 % 5 for start, end in scanned)
    assert all(end - start > 1 for start, end in scanned)


def test_a_cell_tells_all_it_read_up_to_many_thousand_spans(make_handle) -> None:
    """The largest report fits a frame, and the driver accepts it."""
    handle = make_handle("x" * (4 * MAX_SPANS))
    for at in range(0, 4 * MAX_SPANS, 4):
        handle.peek(at, at + 2)
    read, _ = handle.drain_access()
    assert len(read) == MAX_SPANS
    message = {"read": read, "scanned": read}
    body = wire.encode(message, wire.MAX_CALL)[4:]
    assert cell_report({**wire.decode(body), "changed": [], "rebound": []}, 10**7).read == read


def test_the_reading_side_runs_without_the_host(make_handle, tmp_path: Path) -> None:
    """`in_kernel/` and `text/` are loaded by file path as a package of their own."""
    import subprocess
    import sys

    from rlm.sandbox import in_kernel

    with ContextFileWriter(tmp_path / "c") as writer:
        writer.begin_document("a")
        writer.write("слово needle\n")
        writer.finish()
    package = Path(in_kernel.__file__).parent
    code = (
        f"import pathlib, sys; sys.path.insert(0, {str(package)!r}); import launch\n"
        f"launch.load_package(pathlib.Path({str(package)!r}))\n"
        "from kernel_side.text.body import Body\n"
        "from kernel_side.in_kernel.handle import Handle\n"
        f"print(Handle(Body.open({str(tmp_path / 'c')!r})).search(r'\\bneedle\\b')[0].start)\n"
        "assert not any(name.split('.')[0] == 'rlm' for name in sys.modules)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, cwd="/", check=True)
    assert done.stdout == "6\n"


def test_columns_of_one_name_are_all_read(make_handle) -> None:
    """Exports often repeat a name. None of their cells is lost."""
    handle = make_handle(("t.csv", "csv", "name,amount,name,name_2,,\nann,3,bob,cy,dee,eve\n"))
    (row,) = handle.read_records()
    assert row.value == {
        "name": "ann", "amount": "3", "name_3": "bob", "name_2": "cy", "": "dee", "column_2": "eve"
    }  # fmt: skip
    assert row.error is None


def test_a_lazy_record_gives_its_values_however_it_is_asked(make_handle) -> None:
    handle = make_handle("one two\n")
    hit = handle.search("two")[0]
    assert hit.setdefault("line", 9) == 0
    assert hit.setdefault("seen", 1) == 1
    assert [hit.popitem() for _ in range(2)] == [("seen", 1), ("document", handle.documents()[0].name)]


def test_two_offsets_in_a_list_are_two_places(make_handle) -> None:
    """As three are. A tuple is a span."""
    handle = make_handle("".join(f"line {number}\n" for number in range(100)))
    starts = [handle.search(f"line {number}$")[0].start for number in (10, 90)]
    assert [str(text) for text in handle.around(starts, lines=0)] == ["line 10\n", "line 90\n"]
    assert len(handle.around(tuple(starts), lines=0)) > 500
