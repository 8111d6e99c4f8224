"""Test what a cell may give as a place, and what that stands for."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.children import ChildResult
from rlm.sandbox.in_kernel.places import spans_of
from rlm.sandbox.text.body import Span

TEXT = "# Lease\nThe rent is 1,290 EUR.\nEither party may terminate.\n"
ROWS = "id,amount\n1,5\n2,7\n"
END = len(TEXT) + len(ROWS)


class Index:
    """A whole number of another library, as numpy's are."""

    def __init__(self, value: int) -> None:
        self._value = value

    def __index__(self) -> int:
        return self._value


def test_what_each_thing_stands_for(make_views) -> None:
    """In order: as a place, as a part, as a slice, as evidence."""
    views = make_views(("a.md", "markdown", TEXT), ("b.csv", "csv", ROWS))
    (hit,) = views.search("rent", context=2)
    line = Span(8, 30)
    second = Span(END - 4, END)
    answer = ChildResult.of({"text": "the rent"}, Span(8, 30), "a.md")
    computed = views.sql("select sum(amount) from b")
    table = Span(len(TEXT), END)
    for given_, *expected in (
        (hit, Span(12, 16), line, line, line),
        (views.chunk(20)[1], *[Span(20, 40)] * 4),
        (views.documents()[1], *[table] * 4),
        (views.tables()[0], *[table] * 4),
        (views.peek(3, 9), *[Span(3, 9)] * 4),
        (views.read_lines()[1], *[line] * 4),
        (list(views.read_records())[1], *[second] * 4),
        (views.sql("select * from b where id = 2")[0], *[second] * 4),
        (computed[0], table, table, "{'sum(amount)': 12}", table),
        (answer, Span(8, 30), Span(8, 30), "the rent", Span(8, 30)),
        ((3, 9), *[Span(3, 9)] * 4),
        ([3, 9], *[Span(3, 9)] * 4),
        ((Index(3), Index(9)), *[Span(3, 9)] * 4),
        ({"start": 3, "end": 9, "text": "x"}, *[Span(3, 9)] * 4),
        ("own words", *["own words"] * 4),
    ):
        found = [spans_of(given_, use) for use in ("place", "part", "slice", "evidence")]
        assert found == [[one] for one in expected], given_


PAIRS = st.tuples(st.integers(-99, 99), st.integers(-99, 99))


@given(
    st.recursive(PAIRS | st.text(), lambda inner: st.lists(inner, max_size=4).map(tuple) | st.lists(inner))
)
def test_a_list_stands_for_all_that_it_holds(nested: Any) -> None:
    def flat(one: Any) -> list[Any]:
        if isinstance(one, str):
            return [one]
        if isinstance(one, tuple) and len(one) == 2 and isinstance(one[0], int):
            return [Span(*one)]
        return [span for inner in one for span in flat(inner)]

    assert spans_of(nested) == flat(nested)


@pytest.mark.parametrize(
    "wrong", [5, 1.5, None, True, {"start": 3}, {"a": 1}, [(3, 9), 5], (1.5, 2), object(), b"x"]
)
def test_what_names_no_part_is_told(wrong: Any) -> None:
    with pytest.raises(TypeError, match="names no part of the input: give a chunk, a hit"):
        spans_of(wrong)
