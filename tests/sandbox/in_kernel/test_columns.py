"""Test the types of columns against plain Python."""

from __future__ import annotations

import csv
import io
import json
import math
import time
from datetime import date, datetime
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.columns import MISSING, column_types, distinct, fits

WRITTEN: dict[str, tuple[st.SearchStrategy[Any], Any]] = {
    "integer": (st.integers(-(10**17), 10**17), str),
    "number": (st.floats(-1e12, 1e12).filter(lambda one: not one.is_integer()), repr),
    "boolean": (st.booleans(), lambda one: "true" if one else "False"),
    "date": (st.dates(date(1000, 1, 1)), date.isoformat),
    "datetime": (
        st.datetimes(datetime(1000, 1, 1)).map(lambda one: one.replace(second=1)),
        datetime.isoformat,
    ),
}


@pytest.mark.parametrize("kind", WRITTEN)
@settings(max_examples=60)
@given(data=st.data())
def test_a_column_comes_back_as_it_was_before_it_was_written(make_views, kind: str, data: Any) -> None:
    """An empty cell is NULL."""
    values, write = WRITTEN[kind]
    column = data.draw(st.lists(st.none() | values, min_size=1, max_size=8))
    column.append(data.draw(values))
    texts = ["" if one is None else write(one) for one in column]
    out = io.StringIO()
    csv.writer(out).writerows([["key", "x", "y"], *(["k", text, "0"] for text in texts)])
    found = [row.x for row in make_views(("t.csv", "csv", out.getvalue())).sql("select x from t")]
    if kind.startswith("date"):
        assert found == [text or None for text in texts]
        return
    # SQLite's own reading of a number may differ in the last bit.
    for value, read in zip(column, found, strict=True):
        assert read == value or math.isclose(read, value, rel_tol=1e-12)


@given(st.lists(st.text(alphabet="0123456789.-+eE aNn/A:T\t_é٣", max_size=12), max_size=6))
def test_texts_in_a_column_of_numbers_are_numbers(texts: list[str]) -> None:
    kind = column_types(({"x": text} for text in texts), from_json=False).get("x")
    if kind in ("integer", "number"):
        for text in filter(None, map(str.strip, texts)):
            assert text.lower() in MISSING or math.isfinite(float(text))


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["007", "12"], "text"),
        (["12345678901234567890", "1"], "text"),
        (["1", "NA", "", "2.5"], "number"),
        (["1", "x"], "text"),
        (["NA", "-"], "text"),
        (["1e5", "2"], "text"),
        (["1e-05", "2"], "number"),
        (["2024-02-30"], "text"),
        (["2024-02-01", "2024-02-01T10:00"], "datetime"),
        (["true", "1"], "text"),
        (["1,200", "3"], "text"),
        (["+3", " 4 "], "integer"),
    ],
)
def test_odd_columns(texts: list[str], kind: str) -> None:
    assert column_types(({"x": text} for text in texts), from_json=False) == {"x": kind}


def test_json_keeps_its_own_types_but_for_dates(make_views) -> None:
    rows = [
        {"n": "5", "at": "2024-01-02T03:04:05Z", "m": 1, "o": {"a": 1}},
        {"n": "6", "at": None, "m": "x", "o": {}},
    ]
    handle = make_views(("t.jsonl", "jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert handle.tables()[0].columns == {"n": "text", "at": "datetime", "m": "mixed", "o": "object"}


def test_what_a_value_is() -> None:
    assert [fits(one) for one in (None, "", "x" * 50, 1, True, 1.5, [], {})] == [
        "",
        "",
        "text",
        "integer",
        "boolean",
        "number",
        "list",
        "object",
    ]


def test_names_are_numbered_and_stay_distinct() -> None:
    assert distinct(["a", "b", "a", "a_2", "", "A", ""]) == ["a", "b", "a_3", "a_2", "", "A", "column_2"]
    assert distinct(["a", "A", "a_2"], str.casefold) == ["a", "A_3", "a_2"]


def test_a_header_of_many_equal_names_is_fast(make_views) -> None:
    """A folder's file may hold any header."""
    text = ",".join(["x"] * 5_000) + "\n" + ",".join(map(str, range(5_000))) + "\n"
    began = time.process_time()
    (row,) = make_views(("t.csv", "csv", text)).read_records()
    assert time.process_time() - began < 2
    assert len(row.value) == 5_000
    assert (row.value["x"], row.value["x_2"], row.value["x_5000"]) == ("0", "1", "4999")
