"""Test queries over tables: what they give, what they refuse, and what they count as."""

from __future__ import annotations

import json
import sqlite3
from collections import Counter

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.sandbox.in_kernel.places import spans_of
from rlm.sandbox.text.body import Span

ORDERS = (
    "id,day,amount,paid,code,note\n1,2024-01-02,12.5,true,007,x\n2,2024-02-03,,false,008,\n"
    "3,2024-02-09,7,True,010,Ёлка\n"
)
CARDS = "".join(
    json.dumps(card) + "\n"
    for card in (
        {"id": "a", "status": "open", "links": [{"to": "b"}, {"to": "c"}]},
        {"id": "b", "status": "closed", "size": 10**30},
        {"id": "c", "status": "open", "links": [], "late": True},
    )
)


@pytest.fixture
def handle(make_views):
    return make_views(("data/orders.csv", "csv", ORDERS), ("cards.jsonl", "jsonl", CARDS))


def test_counts_and_sums(handle) -> None:
    assert handle.sql("select count(*), sum(amount), max(day) from orders where paid") == [
        (2, 19.5, "2024-02-09")
    ]
    assert handle.sql("select status, count(*) n from cards group by status order by n desc") == [
        ("open", 2),
        ("closed", 1),
    ]
    assert handle.sql("select id from orders where note is null") == [(2,)]
    assert handle.sql("select code from orders where code < '009' order by 1") == [("007",), ("008",)]
    assert handle.sql("select id from orders where strftime('%m', day) = '02' and amount is not null") == [
        (3,)
    ]


def test_lists_are_json(handle) -> None:
    assert handle.sql("select c.id, value ->> 'to' from cards c, json_each(c.links)") == [
        ("a", "b"),
        ("a", "c"),
    ]
    assert handle.sql("select size from cards where id = 'b'") == [(str(10**30),)]
    assert handle.sql("select late from cards") == [(None,), (None,), (1,)]


def test_joins_across_documents(handle) -> None:
    (row,) = handle.sql("select o.id, c.status from orders o join cards c on c.id = 'b' where o.amount > 10;")
    assert row == (1, "closed")
    assert row.span is None
    assert spans_of(row) == [Span(len(ORDERS), len(ORDERS) + len(CARDS)), Span(0, len(ORDERS))]


def test_a_row_is_tuple_record_and_evidence(handle) -> None:
    rows = handle.sql("select id, day, amount as a, _start, _end from orders where a > 1 order by a")
    row = rows[0]
    assert (row[0], row["day"], row.a, row.get("x")) == (3, "2024-02-09", 7.0, None)
    assert dict(row) == {"id": 3, "day": "2024-02-09", "a": 7.0, "_start": row.span[0], "_end": row.span[1]}
    assert handle.peek(*row.span).startswith("3,2024-02-09")
    assert [first for first, *_ in rows] == [3, 1]
    assert [str(text)[:12] for text in handle.around(rows, lines=0)] == ["1,2024-01-02", "3,2024-02-09"]
    assert spans_of(handle.sql("select id, id from orders")[0]) == [Span(0, len(ORDERS))]
    with pytest.raises(KeyError, match=r"there is no column 'x'\. The columns are id, day, a"):
        row["x"]
    assert repr(handle.sql("select id, day, amount as a from orders where a > 1 order by a")) == (
        "2 rows of orders\nid | day | a\n3 | 2024-02-09 | 7.0\n1 | 2024-01-02 | 12.5"
    )
    assert handle.peek(*handle.sql("select * from cards where id = 'b'")[0].span).startswith('{"id": "b"')


@pytest.mark.parametrize(
    "query",
    [
        "select count(*) from cards",
        "select max(id), status from cards",
        "select status from cards group by status",
        "select id from (select id from cards)",
        "with c as (select id from cards) select id from c",
        "select (select count(*) from cards)",
        "select id, status from cards order by status, 1 desc",
    ],
)
def test_a_row_without_its_place_stands_for_its_tables(handle, query: str) -> None:
    rows = handle.sql(query)
    assert {row.span for row in rows} == {None}
    assert list(rows.spans()) == [Span(len(ORDERS), len(ORDERS) + len(CARDS))]


def test_a_number_in_order_by_means_the_column_of_the_query(make_views) -> None:
    handle = make_views(("t.csv", "csv", "g,x,y\nA,3,1\nA,1,2\nA,2,3\n"))
    assert handle.sql("select g, x, y from t order by g, 3 desc limit 2") == [("A", 2, 3), ("A", 1, 2)]


@pytest.mark.parametrize("word", ["join", "group", "union", "order by 2"])
def test_a_word_in_a_text_or_a_comment_is_no_word_of_sql(make_views, word: str) -> None:
    handle = make_views(("t.csv", "csv", f"note\nplease {word} us\n"))
    (row,) = handle.sql(f"select * from t where note = 'please {word} us' -- {word}")
    assert handle.peek(*row.span) == f"please {word} us\n"


@pytest.mark.parametrize("name", ["count", "index", "keys", "get", "span"])
def test_a_column_is_an_attribute_whatever_its_name(handle, name: str) -> None:
    (row, *_) = rows = handle.sql(f'select status, count(*) "{name}" from cards group by status')
    assert (getattr(row, name), row[name], row.status) == (1, 1, "closed")
    assert list(rows.spans()) == [Span(len(ORDERS), len(ORDERS) + len(CARDS))]


def test_columns_named_as_the_place_of_a_row_keep_their_values(make_views) -> None:
    handle = make_views(("t.csv", "csv", "_start,_END,n\n7,8,9\n"))
    (row,) = handle.sql("select * from t")
    assert (row["_start_2"], row["_END_2"], row.n, row.span) == (7, 8, 9, Span(14, 20))


def test_a_query_counts_as_reading_its_tables(handle) -> None:
    handle.sql("select count(*) from cards")
    assert handle.drain_access()[0] == (Span(len(ORDERS), len(ORDERS) + len(CARDS)),)
    handle.sql("select count(*) from cards")
    assert handle.drain_access()[0] == (Span(len(ORDERS), len(ORDERS) + len(CARDS)),)
    assert handle.sql("select 1") == [(1,)]
    assert handle.drain_access()[0] == ()


@pytest.mark.parametrize(
    ("query", "error"),
    [
        (
            "select * from ordres",
            r"there is no table 'ordres'. The tables are orders, cards; tables\(\) shows",
        ),
        (
            "select foo from orders",
            "there is no column foo. The columns are orders: id, day, amount, paid, code, note",
        ),
        ("select unknown(1)", "SQLite: no such function: unknown"),
        ("select * from orders where", "SQLite: incomplete input"),
        ("select id from orders where id = ?", "SQLite: Incorrect number of bindings"),
        ("drop table orders", "takes one SELECT"),
        ("create table x as select 1", "takes one SELECT"),
        ("with x as (select 1) delete from orders", "takes one SELECT"),
        ("select 1; drop table orders", "SQLite"),
        ("select 'a' regexp '('", "REGEXP '\\(': missing"),
        ("select " + "(" * 2_000 + "1" + ")" * 2_000, "SQLite: "),
    ],
)
def test_a_query_that_is_refused_says_why(handle, query: str, error: str) -> None:
    handle.sql("select count(*) from orders")
    with pytest.raises(ValueError, match=error):
        handle.sql(query)
    assert handle.sql("select count(*) from orders") == [(3,)]


@pytest.mark.parametrize("query", [None, 5, "", " "])
def test_a_query_is_a_text(handle, query: object) -> None:
    with pytest.raises(TypeError, match="one SELECT as a str"):
        handle.sql(query)


def test_a_table_by_the_name_of_its_document(handle) -> None:
    for name in ('"data/orders.csv"', "'orders.csv'", "[data/orders.csv]", "ORDERS"):
        assert handle.sql(f"select count(*) from {name} where id > ?", [1]) == [(2,)]
    assert handle.sql("select count(*) from cards where status = :s", {"s": "open"}) == [(2,)]


def test_text_beyond_ascii(handle) -> None:
    assert handle.sql("select lower(note), upper('straße') from orders where id = 3") == [("ёлка", "STRASSE")]
    assert handle.sql("select id from orders where note regexp '^[А-Яё]'") == []
    assert handle.sql("select id from orders where note regexp 'к.$'") == [(3,)]
    assert handle.sql("select median(id) from orders") == [(2,)]


def test_what_a_query_would_not_show_is_reported(make_views, capsys) -> None:
    text = "n,paid,z\n" + "1,true,2\n" * 1_000 + "oops,false,2\nNA,,2\n"
    handle = make_views(("t.csv", "csv", text), ("j.jsonl", "jsonl", '{"a": 1}\nbroken\n'))
    assert handle.sql("select sum(n), count(n), count(*) from t") == [(1_000, 1_001, 1_002)]
    assert capsys.readouterr().err == (
        't."n": 1 of 1,002 values are no integer and stay text, which sum() and avg() take as 0\n'
    )
    assert handle.sql("select count(*) from j") == [(1,)]
    assert capsys.readouterr().err == (
        "j: 1 rows cannot be read and are left out; read_records() has their .error\n"
    )
    assert handle.sql("select count(*) from t where paid = true") == [(1_000,)]


def test_rows_are_bounded(make_views) -> None:
    handle = make_views(("t.csv", "csv", "a,b,c\n" + "1,2,3\n" * 400))
    rows = handle.sql("select x.a from t x, t y")
    assert (len(rows), rows.truncated) == (100_000, True)
    assert repr(rows).startswith("the first 100,000 rows (there are more: aggregate, or add LIMIT) of t")


def test_half_a_surrogate_pair_and_later_columns(make_views) -> None:
    lines = [f'{{"a": {number}}}' for number in range(1_500)]
    lines[1_200] = '{"a": "x \\ud800", "b": {"c": "\\udc00"}, "A": 5}'
    handle = make_views(("t.jsonl", "jsonl", "\n".join(lines)))
    assert handle.sql("select a, b ->> 'c', \"A_2\" from t where b is not null") == [("x ?", "?", 5)]
    assert handle.sql("select a from t where rowid = 1500") == [(1_499,)]


CELLS = st.text(alphabet="aé世\"'\n,;|x0", max_size=5)


@settings(max_examples=60)
@given(st.lists(st.fixed_dictionaries({"k": CELLS, "v": st.integers(-99, 99)}), min_size=1, max_size=12))
def test_a_query_computes_what_python_does(make_views, rows: list[dict]) -> None:
    handle = make_views(("t.jsonl", "jsonl", "".join(json.dumps(row) + "\n" for row in rows)))
    assert dict(handle.sql("select k, count(*) from t group by k")) == Counter(row["k"] for row in rows)
    assert handle.sql("select sum(v) from t") == [(sum(row["v"] for row in rows),)]
    found = handle.sql("select k, v, _start, _end from t where v > 0")
    assert [row[:2] for row in found] == [(row["k"], row["v"]) for row in rows if row["v"] > 0]
    for one in found:
        assert json.loads(handle.peek(*one.span)) == {"k": one.k, "v": one.v}


async def test_sql_in_a_kernel(open_kernel) -> None:
    """It works in the confined kernel, can be interrupted there, and its rows are evidence."""
    kernel = await open_kernel("id,day,amount\n1,2024-01-02,3\n2,2024-01-03,4\n3,2024-01-04,5\n")
    result = await kernel.execute(
        "rows = sql('select * from text where amount > 3')\nprint(rows)", round=1, timeout=20
    )
    assert result.stdout.startswith("2 rows of text\nid | day"), result
    numbers = "with recursive c(x) as (select 1 union all select x + 1 from c)"
    slow = f"sql('{numbers} select count(*) from c where x < 0')"
    result = await kernel.execute(slow, round=2, timeout=2)
    assert result.status == "timeout" or result.ename == "KeyboardInterrupt", result
    assert kernel.alive
    result = await kernel.execute("print(sql('select count(*) from text'))", round=3, timeout=20)
    assert "3" in result.stdout


async def test_rows_as_evidence_and_as_slices(open_kernel, handler) -> None:
    text = "id,day,amount\n1,2024-01-02,3\n2,2024-01-03,4\n"
    kernel = await open_kernel(text)
    code = (
        "one = sql('select amount, _start, _end from text where id = 2')\n"
        "all = sql('select count(*), sum(amount) from text')\n"
        "sub_query('q', one[0]); sub_query('q', all)\nfinalize(all[0], evidence=[one, all])"
    )
    result = await kernel.execute(code, round=1, timeout=20)
    assert result.status == "ok", result
    assert [batch.slices[0].pieces for batch in handler.batches] == [
        (Span(29, 44),),
        ("{'count(*)': 2, 'sum(amount)': 7}",),
    ]
    (final,) = handler.finals
    assert final.value == [2, 7]
    assert final.evidence == (Span(29, 44), Span(0, 44))


def test_sqlite_is_not_imported_before_it_is_needed() -> None:
    """The start of a kernel does not pay for it: nothing of the handle imports it."""
    assert sqlite3
    from rlm.sandbox.in_kernel import tables

    assert not hasattr(tables, "sqlite3")
