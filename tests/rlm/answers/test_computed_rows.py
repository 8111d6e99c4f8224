"""Test that an answer computed by a query cites the table that it was computed over."""

from __future__ import annotations

import sqlite3
from contextlib import closing

import openpyxl
import pytest

from rlm.sandbox.host.requests import finalization
from rlm.testing import ScriptedModel

USERS = [(n + 1, ["Basel", "Bern"][n % 2], ["open", "done"][n % 3 == 0], n * 7 % 40) for n in range(30)]
HEADER = ("id", "city", "status", "balance")
CELL = """
count = sql("select count(*) from users where city = 'Basel'")
top = sql("select id, max(balance) from users")
groups = sql("select status, count(*) n from users group by status order by status")
answer = f"{count[0][0]} users live in Basel [1]. The highest balance is {top[0][1]} [2]."
finalize(answer, evidence=[count, top, groups])
"""
PLACES = {
    "users.csv": "users.csv:1",
    "users.xlsx": "users.xlsx, Users!",
    "users.sqlite": "users.sqlite, table users",
}


def write(path) -> None:
    if path.suffix == ".csv":
        path.write_text("\n".join(",".join(map(str, row)) for row in (HEADER, *USERS)) + "\n")
    elif path.suffix == ".xlsx":
        book = openpyxl.Workbook()
        book.active.title = "Users"
        for row in (HEADER, *USERS):
            book.active.append(row)
        book.save(path)
    else:
        with closing(sqlite3.connect(path)) as database, database:
            database.execute(f"create table users ({', '.join(HEADER)})")
            database.executemany("insert into users values (?, ?, ?, ?)", USERS)


@pytest.mark.parametrize("name", PLACES)
async def test_a_computed_value_cites_its_table(run, block, tmp_path, name) -> None:
    path = tmp_path / name
    write(path)
    result = await run(ScriptedModel.of(root=[block(CELL)]), path)
    assert result.answer.startswith("15 users live in Basel [1]. The highest balance is 39 [2].")
    assert len(result.citations) == 4
    assert all(one.place.startswith(PLACES[name]) for one in result.citations), result.citations
    assert all(one.verified for one in result.citations)
    assert {claim.status for claim in result.support.claims} <= {"unchecked", "supported"}


async def test_many_groups_are_cited_by_their_table(run, block) -> None:
    text = "id,city,n\n" + "".join(f"{n},c{n % 30},{n}\n" for n in range(90))
    cell = "rows = sql('select city, count(*) from text group by city')\nfinalize('x', evidence=rows)"
    result = await run(ScriptedModel.of(root=[block(cell)]), text)
    assert [one.rows_place for one in result.citations] == [None]


@pytest.mark.parametrize(
    "piece",
    [
        {"rows": [], "total": 3},
        {"rows": [[0, 1]], "total": 0},
        {"rows": [[0, 1]], "total": True},
        {"rows": [[0, 1]] * 11, "total": 99},
        {"rows": [[0, -1]], "total": 1},
        {"rows": "x", "total": 1},
        {"rows": [[0, 1]], "total": 1, "more": 1},
    ],
)
def test_broken_rows_end_the_kernel(piece) -> None:
    params = {"value": "x", "confidence": None, "evidence": [piece], "read": [], "scanned": []}
    with pytest.raises(ValueError, match=r"span|evidence|rows|total"):
        finalization(params, 100)


async def test_a_row_of_two_tables_is_one_piece(run, block, tmp_path) -> None:
    """An answer numbers its evidence by rows, so a row may not become several pieces."""
    (tmp_path / "orders.csv").write_text("order id;city\n" + "".join(f"{n};c{n % 3}\n" for n in range(9)))
    (tmp_path / "notes.csv").write_text("order,minutes\n" + "".join(f"{n},{n}\n" for n in range(9)))
    query = (
        'select city, avg(minutes) mean from orders join notes on notes."order" = orders."order id" '
        "group by city order by city"
    )
    answer = "c0 takes 3 [1], c1 takes 4 [2], c2 takes 5 [3]."
    cell = f"rows = sql({query!r})\nprint(rows)\nfinalize({answer!r}, evidence=list(rows))"
    model = ScriptedModel.of(root=[block("print(tables())"), block(cell)])
    result = await run(model, tmp_path)
    told = model.requests[1].messages[-1].content
    assert result.text == answer.replace("[1]", "[¹]").replace("[2]", "[²]").replace("[3]", "[³]")
    assert [one.place for one in result.citations] == ["notes.csv:1, orders.csv:1"] * 3
    assert all(one.verified for one in result.citations)
    assert '"order id"' in told
    assert '"order"' in told
