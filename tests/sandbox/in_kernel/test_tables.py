"""Test which tables are found, how they are named, and what of them is read."""

from __future__ import annotations

import json

import pytest

from rlm.sandbox.text.body import Span

ORDERS = "id,day,amount,paid\n1,2024-01-02,12.5,true\n2,2024-02-03,,false\n"
REPORT = """# Cities

| city | n \\| m |
|:---|---:|
| Bern | 3 |
| Basel \\| BS | 4 |

text

a | b
--|--
1 | 2"""


def test_tables_have_names_rows_and_typed_columns(make_views) -> None:
    handle = make_views(
        ("data/orders.csv", "csv", ORDERS),
        ("notes.txt", "text", "no table\n---\n"),
        ("report.md", "markdown", REPORT),
        ("log.jsonl", "jsonl", '{"a": 1}\nbroken\n{"a": 2, "b": [1]}\n'),
    )
    tables = handle.tables()
    assert [(one.name, one.document) for one in tables] == [
        ("orders", "data/orders.csv"),
        ("log", "log.jsonl"),
        ("report", "report.md"),
        ("report_2", "report.md"),
    ]
    assert tables[0].columns == {"id": "integer", "day": "date", "amount": "number", "paid": "boolean"}
    assert list(tables[2].columns) == ["city", "n | m"]
    assert repr(tables).split("\n")[1] == (
        "  orders (data/orders.csv): id integer, day date, amount number, paid boolean"
    )
    counts = [handle.sql(f"select count(*) from {one.name}")[0][0] for one in tables]
    assert counts == [2, 2, 2, 1]
    assert [row.value["id"] for row in handle.read_records(within=tables[0])] == ["1", "2"]
    cities = list(handle.read_records(within=tables[2]))
    assert [row.value for row in cities] == [
        {"city": "Bern", "n | m": "3"},
        {"city": "Basel | BS", "n | m": "4"},
    ]
    assert handle.peek(cities[1].start, cities[1].end) == "| Basel \\| BS | 4 |"
    assert [row.value["a"] for row in handle.read_records(within=handle.search("1 [|] 2", context=0)[0])] == [
        "1"
    ]
    assert handle.sql('select city from report where "n | m" > 3') == [("Basel | BS",)]


def test_listing_reads_nothing_until_it_is_asked(make_views) -> None:
    handle = make_views(("a.csv", "csv", ORDERS * 3_000), ("b.csv", "csv", ORDERS))
    tables = handle.tables()
    assert handle.drain_access() == ((), ())
    assert tables[0].columns
    read, ((start, end),) = handle.drain_access()
    assert not read
    assert (start, end < 40_000) == (19, True)


def test_no_table(make_views) -> None:
    handle = make_views(("a.txt", "text", "x\n"))
    assert repr(handle.tables()).startswith("no table: no document holds CSV")
    with pytest.raises(ValueError, match="there is no table in this input"):
        handle.sql("select * from a")


def test_names_for_sql(make_views) -> None:
    names = ["orders.csv", "2024.csv", "order.csv", "a/x.jsonl.gz", "x.csv", "X.csv", "ä-ö.csv", ".csv"]
    handle = make_views(*((name, "csv", "a,b,c\n1,2,3\n") for name in names))
    assert [one.name for one in handle.tables()] == [
        "orders", "t_2024", "order_", "x", "x_2", "X_3", "ä_ö", "t_"
    ]  # fmt: skip


def test_ten_thousand_tables_are_listed_in_short(make_views) -> None:
    handle = make_views(*((f"d/{n}.csv", "csv", "a,b,c\n1,2,3\n") for n in range(2_000)))
    assert len(handle.tables()) == 2_000
    assert repr(handle.tables()).endswith("… and 1,980 more in this list")
    assert handle.sql("select a from t_1999") == [(1,)]
    with pytest.raises(ValueError, match=r"there is no table 't_1x'. The tables are t_1.* and 1,98\d more"):
        handle.sql("select a from t_1x")


def test_records_within_a_part(make_views) -> None:
    lines = [json.dumps({"n": number}) for number in range(10)]
    handle = make_views(
        ("a.jsonl", "jsonl", "\n".join(lines[:5]) + "\n"),
        ("b.jsonl", "jsonl", "\n".join(lines[5:]) + "\n"),
        ("c.csv", "csv", 'x,y\n1,"a\nb"\n2,c\n'),
        ("d.json", "json", json.dumps([{"n": 20}, {"n": 21}], indent=1)),
    )

    def numbers(within: object) -> list[object]:
        return [row.value.get("n", row.value.get("x")) for row in handle.read_records(within=within)]

    assert numbers("b.jsonl") == [5, 6, 7, 8, 9]
    assert numbers("c.csv") == ["1", "2"]
    hit = handle.search('"n": 7', context=0)[0]
    assert numbers((hit.start, hit.end)) == [7]
    assert numbers((12, 25)) == [1, 2]
    quoted = handle.search("^b", within="c.csv", context=0)[0]
    assert numbers((quoted.start, quoted.start + 1)) == ["1"]
    assert numbers(handle.quote('"n": 21')) == [21]
    handle.drain_access()
    assert numbers((12, 25)) == [1, 2]
    (read,) = handle.drain_access()[0]
    assert read == Span(9, 26)
    with pytest.raises(ValueError, match="no document is named 'e'"):
        handle.read_records(within="e")
