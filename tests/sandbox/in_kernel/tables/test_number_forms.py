"""Test numbers that are not written plainly: which columns are read, and that no text is lost."""

from __future__ import annotations

import csv
import io
from typing import Any

import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.columns.column_types import ColumnTypes
from rlm.sandbox.in_kernel.columns.number_forms import find_form

CELLS = st.from_regex(
    r"\A[(]?[-+]?(?:\$|\u20ac ?|CHF )?[0-9]{1,3}(?:[,.'\u00a0][0-9]{1,3}){0,3}\ ?(?:%|EUR)?[)]?\Z",
    fullmatch=True,
)
COLUMNS = st.lists(CELLS | st.sampled_from(["", "-", "n/a", "12", "see note"]), min_size=1, max_size=6)
GROUPS = [("$", ",", "."), ("", ",", "."), ("", ".", ","), ("CHF ", "'", "."), ("", "\u202f", ",")]


def table(texts: list[str]) -> str:
    out = io.StringIO()
    csv.writer(out).writerows([["key", "x", "y"], *(["k", text, "z"] for text in texts)])
    return out.getvalue()


@pytest.mark.parametrize(
    ("texts", "kind", "values"),
    [
        (["12.5%", "3 %", ""], "number in %", [12.5, 3, None]),
        (["12,5 %", "-3 %"], "number in %", [12.5, -3]),
        (["1.250%", "2.125%"], "number in %", [1.25, 2.125]),
        (["1'234.50", "12", "n/a"], "number", [1234.5, 12, None]),
        (["1,234,567", "9"], "integer", [1234567, 9]),
        (["1.234,50", "12,00", "1.234"], "number", [1234.5, 12, 1234]),
        (["\u20ac 1,200", "\u20ac 950", "-"], "integer in \u20ac", [1200, 950, None]),
        (["CHF 1'234.50", "CHF -5"], "number in CHF", [1234.5, -5]),
        (["$1,200", "-$5.25"], "number in $", [1200, -5.25]),
        (["1\u00a0200,50 \u20ac", "7 \u20ac"], "number in \u20ac", [1200.5, 7]),
        (["(1,200)", "950", "3,100"], "integer", [-1200, 950, 3100]),
        (["($5.20)", "$3"], "number in $", [-5.2, 3]),
    ],
)
def test_numbers_of_a_form(texts: list[str], kind: str, values: list[Any]) -> None:
    types = ColumnTypes(({"x": text} for text in texts), from_json=False)
    assert types.shown("x") == kind
    assert [types.converted("x", text) for text in texts] == values


@pytest.mark.parametrize(
    "texts",
    [
        ["1,200", "3"],
        ["12,50", "1,2"],
        ["\u20ac 1,299", "\u20ac 1,305"],
        ["\u20ac 1.299"],
        ["1,250%"],
        ["$5", "\u20ac5"],
        ["5", "6%"],
        ["(5)", "(6)"],
        ["007%", "5%"],
        ["123.456.789"],
        ["1 200 EUR", "5 EUR"],
        ["12.5%", "see note"],
    ],
)
def test_what_may_be_read_in_two_ways_stays_text(texts: list[str]) -> None:
    types = ColumnTypes(({"x": text} for text in texts), from_json=False)
    assert types.shown("x") == "text"
    assert [types.converted("x", text) for text in texts] == texts


@given(st.sampled_from(GROUPS), st.lists(st.integers(0, 10**12), min_size=1, max_size=5), st.data())
def test_numbers_come_back_as_they_were_before_they_were_written(form, cents: list[int], data: Any) -> None:
    unit, group, point = form
    negative = [data.draw(st.booleans()) for _ in cents]

    def write(number: int, is_negative: bool) -> str:
        whole = f"{number // 100:,}".replace(",", group)
        return f"{'-' if is_negative else ''}{unit}{whole}{point}{number % 100:02}"

    texts = list(map(write, cents, negative))
    found = find_form(texts)
    assume(unit or any(number >= 100_000 for number in cents))
    assert found is not None
    expected = [
        (-number if is_negative else number) / 100
        for number, is_negative in zip(cents, negative, strict=True)
    ]
    assert [found.read(text) for text in texts] == expected


@settings(max_examples=25, deadline=None)
@given(COLUMNS, st.sampled_from(["12.5", "see note", "9 %", "1,2,3"]))
def test_the_text_is_never_lost(make_views, texts: list[str], later: str) -> None:
    """A value becomes a number or no value, or stays as it is. The row and its place keep the text."""
    padded = texts + [texts[0]] * (1_000 - len(texts)) + [later]
    handle = make_views(("t.csv", "csv", table(padded)))
    typed = list(handle.read_records(typed=True))
    assert [row.raw["x"] for row in typed] == padded
    assert [row.value["x"] for row in handle.read_records()] == padded
    for row in (*typed[: len(texts)], typed[-1]):
        value, raw = row.value["x"], row.raw["x"]
        assert raw in handle.peek(row.start, row.end).replace('""', '"')
        if isinstance(value, str):
            assert value == raw
        elif value is None:
            assert raw.strip().lower() in ("", "-", "n/a")
        else:
            assert [char for char in raw if char.isdigit()]
    (row,) = handle.sql("select x from t order by _rowid_ desc limit 1")
    assert row.x == typed[-1].value["x"] or str(row.x) == later


def test_they_are_numbers_in_a_query(make_views, capsys) -> None:
    text = table(["\u20ac 1,200", "\u20ac 950", "-", "\u20ac 20"])
    handle = make_views(("t.csv", "csv", text))
    assert [(one.name, one.type) for one in handle.tables()[0].columns][1] == ("x", "integer in \u20ac")
    assert handle.sql("select sum(x), max(x), count(x) from t") == [(2170, 1200, 3)]
    assert handle.sql("select x from t where x > 900 order by x") == [(950,), (1200,)]
    late = make_views(("t.csv", "csv", table(["3%"] * 1_000 + ["12.5"])))
    assert late.sql("select count(*) from t where typeof(x) = 'text'") == [(1,)]
    assert "1 of 1,001 values are no integer and stay text" in capsys.readouterr().err
