"""Test which tables are found, how they are named, and what of them is read."""

from __future__ import annotations

import json

import pytest

from rlm.sandbox.in_kernel.tables.table_names import table_names
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
    assert [(one.name, one.document, one.rows) for one in tables] == [
        ("orders", "data/orders.csv", 2),
        ("log", "log.jsonl", 2),
        ("report_1", "report.md", 2),
        ("report_2", "report.md", 1),
    ]
    assert [(one.name, one.type, one.sample) for one in tables[0].columns] == [
        ("id", "integer", "1"),
        ("day", "date", "2024-01-02"),
        ("amount", "number", "12.5"),
        ("paid", "boolean", "true"),
    ]
    assert [one.name for one in tables[2].columns] == ["city", "n | m"]
    assert repr(tables).split("\n")[1] == (
        "  orders (data/orders.csv): 2 rows; id integer ('1'), day date ('2024-01-02'), "
        "amount number ('12.5'), paid boolean ('true')"
    )
    assert repr(tables[:1]).startswith("1 table\n  orders (data/orders.csv)")
    assert [row.value["id"] for row in handle.read_records(within=tables[0])] == ["1", "2"]
    assert handle.sql('select city from report_1 where "n | m" > 3') == [("Basel | BS",)]


def test_listing_reads_nothing_until_it_is_asked(make_views) -> None:
    handle = make_views(("a.csv", "csv", ORDERS * 3_000), ("b.csv", "csv", ORDERS))
    tables = handle.tables()
    assert handle.drain_access() == ((), ())
    assert tables[0].columns
    read, ((start, end),) = handle.drain_access()
    assert not read
    assert (start, end < 40_000) == (19, True)
    assert tables[1].rows == 2
    assert handle.drain_access() == ((), (Span(tables[1].start, tables[1].end),))


def test_a_large_table_is_not_counted_for_printing(make_views) -> None:
    handle = make_views(("a.csv", "csv", "x,y,z\n" + "1,2,3\n" * 800_000))
    tables = handle.tables()
    assert "(a.csv): not counted yet (.rows counts them) rows" in repr(tables)
    assert tables[0].rows == 800_000
    assert "(a.csv): 800,000 rows" in repr(tables)


def test_no_table(make_views) -> None:
    handle = make_views(("a.txt", "text", "x\n"))
    assert repr(handle.tables()).startswith("no table: no document holds CSV")
    with pytest.raises(ValueError, match="there is no table in this input"):
        handle.sql("select * from a")


def test_names_for_sql() -> None:
    assert table_names(
        [
            "orders.csv",
            "2024.csv",
            "order.csv",
            "a/x.jsonl.gz",
            "b.xlsx/Sheet 1",
            "c.xlsx/Sheet 1",
            "ä-ö.csv",
            ".csv",
        ]
    ) == ["orders", "t_2024", "order_", "x", "b_Sheet_1", "c_Sheet_1", "ä_ö", "csv"]
    assert table_names(["x.csv", "X.csv", "p/x.csv"]) == ["x", "X_2", "p_x"]
    assert table_names([]) == []


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
