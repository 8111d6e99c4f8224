"""Test that a computed row knows the records that it comes from, whatever the query."""

from __future__ import annotations

import csv
import io

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

ROWS = [(n + 1, ["Basel", "Bern"][n % 2], ["open", "done"][n % 5 == 0], (n * 7) % 40) for n in range(40)]


def as_csv(rows) -> str:
    out = io.StringIO()
    csv.writer(out).writerows([("id", "city", "status", "balance"), *rows])
    return out.getvalue()


@pytest.fixture
def handle(make_views):
    return make_views(("users.csv", "csv", as_csv(ROWS)), ("b.csv", "csv", "k,v,w\n1,2,3\n4,5,6\n"))


def first_ids(handle, row) -> list[int]:
    return [int(handle.peek(*span).split(",")[0]) for span in row.sources.first]


def test_a_count_knows_the_rows_that_were_counted(handle) -> None:
    (row,) = handle.sql("select count(*) from users where city = 'Basel' and status = ?", ["done"])
    expected = [number for number, city, status, _ in ROWS if city == "Basel" and status == "done"]
    assert row[0] == row.sources.total == len(expected)
    assert first_ids(handle, row) == expected[:3]
    assert row.span is None


def test_a_highest_value_knows_its_row(handle) -> None:
    best = max(ROWS, key=lambda one: one[3])
    for query in (
        "select max(balance) from users",
        "select id, MAX(balance) from users",
        "select min(id), max(balance) from users where id = 18",
        'select count(*), max("balance") as top from users',
    ):
        (row,) = handle.sql(query)
        assert first_ids(handle, row) == [best[0]]
        assert row.sources.total == (1 if "where" in query else 40)


def test_each_group_knows_its_rows(handle) -> None:
    rows = handle.sql("select city, count(*) n from users group by city having n > 1 order by n desc limit 5")
    for row in rows:
        expected = [number for number, city, *_ in ROWS if city == row.city]
        assert (row.n, row.sources.total, first_ids(handle, row)) == (20, 20, expected[:3])


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from users where city = 'Rome'",
        "select distinct city from users",
        "select city, count(*) from users group by 1",
        "select count(*) from users a join b on b.k = a.id",
        "select count(*) from users, b",
        "select count(*) from (select id from users)",
        "select sum(balance) over () from users",
        "with c as (select id from users) select count(*) from c",
        "select count(*) from users union select 1",
        "select (select count(*) from users)",
    ],
)
def test_where_the_rows_are_not_known_the_tables_stand(handle, query: str) -> None:
    rows = handle.sql(query)
    assert {row.sources for row in rows} == {None}
    assert all(row.places for row in rows)


@settings(max_examples=30, deadline=None)
@given(
    st.lists(
        st.tuples(st.integers(1, 9), st.sampled_from("ab"), st.sampled_from("xy"), st.integers(0, 5)),
        min_size=3,
    ),
    st.sampled_from(["balance > 2", "city = 'a'", "status = 'x' and balance < 4", "1"]),
    st.sampled_from(["city", "status", "balance"]),
)
def test_the_number_of_rows_is_the_count(make_views, rows, where: str, group: str) -> None:
    """The trace changes no result."""
    handle = make_views(("users.csv", "csv", as_csv(rows)))
    found = handle.sql(
        f"select {group} as g, count(*) as n, sum(balance) from users where {where} group by {group}"
    )
    for row in found:
        assert row.sources.total == row.n
        assert len(row.sources.first) == min(3, row.n)
    assert sum(row.n for row in found) == len(handle.sql(f"select id from users where {where}"))
