"""Questions over records are answered as numbers, with the records as evidence."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from types import SimpleNamespace

import openpyxl
import pytest

from rlm import Settings
from rlm.models.offline.extractive.records.cell import PLAIN
from rlm.models.offline.extractive.records.closest import closest_records
from rlm.models.offline.extractive.records.fields import to_number
from rlm.models.offline.extractive.records.reporting import answer_records
from rlm.models.offline.extractive.records.rows import log_rows, table_rows
from rlm.testing import ScriptedModel

CARDS = [
    {
        "id": f"q-{n:03}",
        "title": f"Card number {n}" if n != 7 else "OOM crash in embed_texts",
        "description": "Nothing to say. " * 8 if n % 4 else None,
        "status": ["open", "closed", "in_progress"][(n % 5 > 2) + (n % 10 == 9)],
        "priority": n % 4,
        "issue_type": ["bug", "task", "feature"][n % 3],
        "created_at": f"2026-{1 + n % 3:02}-{1 + n % 28:02}T09:00:00-08:00",
        "closed_at": f"2026-{2 + n % 3:02}-{1 + n % 28:02}T09:00:00Z" if n % 5 > 2 and n % 10 != 9 else None,
        "created_by": ["Ann", "Ben"][n % 4 == 0],
        "close_reason": f"Fixed in PR #{n}" if n % 5 > 2 else None,
        "labels": [{"name": "cli"}] if n % 6 == 0 else [],
        "user": {"login": "ann"},
    }
    for n in range(60)
]
ORDERS = [
    {
        "order_id": str(1000 + n),
        "date": f"2025-{1 + n % 12:02}-15",
        "customer": ["Acme Corp", "Globex", "Initech"][n % 3],
        "region": ["North", "South"][n % 2],
        "quantity": str(1 + n % 5),
        "amount": f"{(n * 37) % 500}.50",
        "status": ["paid", "refunded", "pending"][n % 7 % 3],
    }
    for n in range(120)
]
FAILED = (
    "2026-03-14T16:21:44 ERROR billing: charge failed for customer=acme-4471 amount=1200 reason=card_expired"
)
LOG = [
    FAILED
    if n == 217
    else f"2026-03-14T{n // 60:02}:{n % 60:02}:00 WARN billing: slow gateway response"
    if n % 20 == 0
    else f"2026-03-14T{n // 60:02}:{n % 60:02}:00 INFO billing: charge ok for customer=globex-{n} amount=7"
    for n in range(400)
]
USERS = [
    {
        "id": 1 + n,
        "name": f"User {1 + n}",
        "city": ["Basel", "Bern", "Zurich"][n % 3],
        "company": ["Acme", "Globex"][n % 2],
        "currency": ["EUR", "USD"][n % 4 == 0],
        "amount": n + 0.5,
        "status": ["open", "closed"][n % 5 == 0],
        "balance": (n * 7) % 40,
        "customer": ["Initech", "Hooli", "Umbrella"][n % 3],
    }
    for n in range(41)
]
ROWS = {
    "users": [SimpleNamespace(value=user, start=n, end=n + 1) for n, user in enumerate(USERS)],
    "cards": [SimpleNamespace(value=card, start=n, end=n + 1) for n, card in enumerate(CARDS)],
    "orders": [SimpleNamespace(value=order, start=n, end=n + 1) for n, order in enumerate(ORDERS)],
}
LINES = [SimpleNamespace(text=line + "\n", start=n, end=n + 1) for n, line in enumerate(LOG)]


def ask(source: str, question: str):
    if source == "log":
        rows = log_rows(lambda: iter(LINES))
        assert rows is not None
        return answer_records(question, rows, PLAIN, [], is_log=True)
    return answer_records(question, table_rows(ROWS[source]), PLAIN, [source])


def cards(**fields) -> list[int]:
    return [n for n, card in enumerate(CARDS) if all(card[name] == value for name, value in fields.items())]


def orders(**fields) -> list[dict[str, str]]:
    return [order for order in ORDERS if all(order[name] == value for name, value in fields.items())]


def total(found: list[dict[str, str]]) -> str:
    amount = sum(float(order["amount"]) for order in found)
    return f"{amount:,.0f}" if amount.is_integer() else f"{amount:,.2f}"


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        ("How many open issues of priority 1 are there?", {"status": "open", "priority": 1}),
        ("How many issues are in progress?", {"status": "in_progress"}),
        ("How many bugs are open?", {"status": "open", "issue_type": "bug"}),
        ("Count the closed features.", {"status": "closed", "issue_type": "feature"}),
        ("How many P0 tasks are there?", {"priority": 0, "issue_type": "task"}),
        ("How many cards did Ben create?", {"created_by": "Ben"}),
        ("How many issues have no description?", {"description": None}),
        ("How many open cards have the label cli?", {"status": "open", "labels": [{"name": "cli"}]}),
    ],
)
def test_every_word_of_a_count_is_used(question, fields) -> None:
    answer = ask("cards", question)
    assert answer.text.startswith(f"{len(cards(**fields))} of 60 records have")
    assert answer.confidence == "high"
    assert set(answer.evidence) <= {(n, n + 1) for n in cards(**fields)}


def test_a_number_of_none_says_what_there_is_of_each() -> None:
    answer = ask("cards", "How many in-progress issues of priority 2 are there?")
    assert answer.text.startswith(
        "0 of 60 records have status 'in_progress' and priority 2; there are 6 with"
    )
    assert answer.evidence == []


@pytest.mark.parametrize(
    ("question", "fields"),
    [
        (
            "What is the total amount of refunded orders of Globex?",
            {"status": "refunded", "customer": "Globex"},
        ),
        ("What are the total sales in the North region?", {"region": "North"}),
        ("sum of amount for Acme Corp", {"customer": "Acme Corp"}),
        ("What is the total amount of orders in 2025?", {}),
        ("What is the sum of the amounts in March 2025?", {"date": "2025-03-15"}),
    ],
)
def test_sums(question, fields) -> None:
    assert ask("orders", question).text.startswith(f"{total(orders(**fields))}: the sum of amount")


def test_by_a_field_and_the_most() -> None:
    by_region = ask("orders", "sum of amount by region").text
    assert f"North: {total(orders(region='North'))}" in by_region
    assert f"South: {total(orders(region='South'))}" in by_region
    best = max(
        ("Acme Corp", "Globex", "Initech"),
        key=lambda name: float(total(orders(customer=name)).replace(",", "")),
    )
    for question in ("Which customer has the highest total amount?", "Which customer spent the most?"):
        assert ask("orders", question).text.startswith(f"{best} ({total(orders(customer=best))})")
    statuses = ask("cards", "How many issues are there per status?").text
    assert f"closed: {len(cards(status='closed'))}" in statuses
    assert ask("cards", "How many issues were created each month?").text.count("\n") == 3


def test_comparisons_extremes_and_values() -> None:
    above = sum(float(order["amount"]) > 300 for order in ORDERS)
    assert ask("orders", "How many orders have an amount above 300?").text.startswith(f"{above} of 120")
    between = sum(100 <= float(order["amount"]) <= 200 for order in ORDERS)
    assert ask("orders", "How many orders are between 100 and 200 in amount?").text.startswith(
        f"{between} of 120"
    )
    late = sum(order["date"] > "2025-06-30" for order in ORDERS)
    assert ask("orders", "How many orders were there after 2025-06-30?").text.startswith(f"{late} of 120")
    largest = max(ORDERS, key=lambda order: float(order["amount"]))
    assert f"order_id {largest['order_id']}" in ask("orders", "What was the largest order?").text
    newest = max(CARDS, key=lambda card: card["created_at"])
    assert newest["id"] in ask("cards", "What is the newest issue?").text
    assert ask("orders", "How many customers are there?").text.startswith("3 different values of customer")
    assert ask("orders", "Which regions are there?").text.startswith("2 different values of region")
    assert "mean of amount" in ask("orders", "What is the average amount of paid orders?").text


def test_lists_and_single_records() -> None:
    listed = ask("cards", "Which open features are there?")
    assert listed.evidence == [(n, n + 1) for n in cards(status="open", issue_type="feature")][:10]
    assert listed.text.count("\n") <= 12
    assert "close_reason: Fixed in PR #3" in ask("cards", "Why was q-003 closed?").text
    assert "status: closed" in ask("cards", "What is the status of q-003?").text
    assert "amount: " in ask("orders", "What is the amount of order 1019?").text


def test_lines_of_a_log_are_records() -> None:
    failed = ask("log", "Which customer had a failed charge, and why?")
    assert failed.text.split("\n")[1] == f"- {FAILED} [¹]"
    assert failed.evidence == [(217, 218)]
    assert ask("log", "How many errors are there?").evidence == [(217, 218)]
    assert "INFO: 379" in ask("log", "How many lines per level?").text
    assert FAILED in ask("log", "When was the last error?").text
    slow = ask("log", "Which gateway response was slow?")
    assert "(20 times)" in slow.text
    assert len(slow.evidence) == 1


@pytest.mark.parametrize(
    ("question", "start"),
    [
        ("How many users live in Basel?", "14 of 41 records have city 'Basel'"),
        ("How many users do not live in Basel?", "27 of 41 records have city not 'Basel'"),
        ("How many users are based in Basel or Bern?", "28 of 41 records have city 'Basel' or 'Bern'"),
        ("How many users work for Acme?", "21 of 41 records have company 'Acme'"),
        ("How many cities are there?", "3 different values of city"),
        ("Which currencies are used?", "2 different values of currency"),
        ("How many different statuses are there?", "2 different values of status"),
        ("How many rows does the table have?", "41 records"),
        ("What is the total of amount for EUR?", "615: the sum of amount of the 30 records"),
        ("Which customer has the highest balance?", "Umbrella (39). The highest balance of 41"),
        ("Which customer has the lowest balance?", "Initech, Hooli (0). The lowest balance of 41"),
        ("Which customer has the lowest amount?", "Initech (0.50). The lowest amount of 41 records"),
        ("Which city does User 7 live in?", "1 of 41 records have name 'User 7'"),
    ],
)
def test_questions_in_the_words_of_a_person(question, start) -> None:
    answer = ask("users", question)
    assert answer.text.startswith(start)
    assert answer.confidence == "high"
    assert answer.evidence


@pytest.mark.parametrize(
    "question",
    [
        "How many users like Basel?",
        "How many users were born in Basel?",
        "How many users in Basel own a car?",
    ],
)
def test_a_verb_that_no_field_tells_is_not_passed_over(question) -> None:
    assert ask("users", question) is None


@pytest.mark.parametrize(
    "question",
    [
        "How many tigers are there?",
        "Who is the prime minister of Norway?",
        "What is this about?",
        "How does a trie work?",
    ],
)
@pytest.mark.parametrize("source", ["cards", "orders", "log"])
def test_what_the_fields_do_not_tell_is_not_computed(source, question) -> None:
    assert ask(source, question) is None


def test_the_closest_records_are_told_by_their_title_and_sentence() -> None:
    answer = closest_records("What causes the OOM crash in embed_texts?", table_rows(ROWS["cards"]), PLAIN)
    assert answer.text.startswith("- q-007: OOM crash in embed_texts")
    assert answer.confidence == "low"


async def test_a_board_is_asked_through_the_product(run, tmp_path) -> None:
    path = tmp_path / "board.jsonl"
    path.write_text("".join(json.dumps(card) + "\n" for card in CARDS))
    result = await run(
        "extractive", path, task="How many open bugs of priority 0 are there?", settings=Settings()
    )
    assert result.answer.startswith(f"{len(cards(status='open', issue_type='bug', priority=0))} of 60")
    assert (result.confidence, result.found) == ("high", True)
    assert all(citation.verified for citation in result.citations)


async def test_a_short_log_is_asked_through_the_product(run, tmp_path) -> None:
    path = tmp_path / "server.log"
    path.write_text("\n".join(LOG) + "\n")
    result = await run(
        "extractive", path, task="Which customer had a failed charge, and why?", settings=Settings()
    )
    assert [citation.quote.strip() for citation in result.citations] == [FAILED]


async def test_a_child_that_quotes_nothing_does_not_hide_what_the_text_says(run) -> None:
    """SmolLM2 as child: its reply was nonsense, and the answer denied that the text had the words."""
    invented = ScriptedModel.of(child=["It is possible that you have created an infinite loop."])
    text = "The yard is old.\n" * 2_000 + "The secret code of the gate is Zebra-99.\n" + "So it is.\n" * 2_000
    result = await run("extractive", text, task="What is the secret code of the gate?", sub_model=invented)
    assert "Zebra-99" in result.text
    assert "infinite loop" not in result.text
    assert "No passage" not in result.text
    assert all(citation.verified for citation in result.citations)


async def test_prose_beside_a_table_is_searched(run, tmp_path) -> None:
    (tmp_path / "a.csv").write_text("name,age\nAnn,4\nBen,5\n")
    (tmp_path / "b.md").write_text(
        "# Yard\n\nWhich cranes of Zanzibar swing is told here: three of them.\n" * 30
    )
    result = await run("extractive", tmp_path, task="Which cranes of Zanzibar swing?", settings=Settings())
    assert "three of them" in result.text


@pytest.mark.parametrize(
    ("text", "number"),
    [
        ("12.5%", 12.5),
        ("1'234.50", 1234.5),
        ("€ 1,200", 1200),
        ("CHF 1'200", 1200),
        ("(1,200)", -1200),
        ("-$5", -5),
        ("7 EUR", 7),
        ("(5)", None),
        ("1,20", None),
        ("abc", None),
        ("EURO5", None),
        ("", None),
    ],
)
def test_numbers_as_people_write_them(text, number) -> None:
    assert to_number(text) == number


def as_csv(rows: list[dict]) -> str:
    out = io.StringIO()
    writer = csv.DictWriter(out, rows[0])
    writer.writeheader()
    writer.writerows(rows)
    return out.getvalue()


def as_sheet(path, rows: list[dict]) -> None:
    book = openpyxl.Workbook()
    book.active.title = "Users"
    for row in [list(rows[0]), *(list(row.values()) for row in rows)]:
        book.active.append(row)
    book.save(path)


def as_database(path, rows: list[dict]) -> None:
    with closing(sqlite3.connect(path)) as database, database:
        database.execute(f"create table users ({', '.join(rows[0])})")
        marks = ", ".join("?" * len(rows[0]))
        database.executemany(f"insert into users values ({marks})", [list(row.values()) for row in rows])
        database.execute("create table cards (id, title, status)")
        cards = [(n, f"Card {n}", ["open", "done"][n % 2]) for n in range(9)]
        database.executemany("insert into cards values (?, ?, ?)", cards)


@pytest.mark.parametrize(
    ("name", "question", "start", "place"),
    [
        ("users.csv", "How many users live in Basel?", "14 of 41 records have city 'Basel'", "users.csv:2"),
        ("u.jsonl", "What is the total of amount for EUR?", "615: the sum of amount of the 30", "jsonl:2"),
        ("u.xlsx", "How many have status 'open'?", "32 of 41 records have status 'open'", "Users!A3:I3"),
        ("u.sqlite", "How many cards have status 'open'?", "5 of 9 records have status 'open'", "row 1"),
        ("u.sqlite", "Which customer has the highest balance?", "Umbrella (39). ", "row 18"),
        ("u.sqlite", "How many are closed?", "9 of 41 records of users have status 'closed'", "row 1"),
    ],
)
async def test_each_kind_of_table_is_asked_through_the_product(
    run, tmp_path, name, question, start, place
) -> None:
    path = tmp_path / name
    if path.suffix == ".csv":
        path.write_text(as_csv(USERS))
    elif path.suffix == ".jsonl":
        path.write_text("".join(json.dumps(user) + "\n" for user in USERS))
    else:
        (as_sheet if path.suffix == ".xlsx" else as_database)(path, USERS)
    result = await run("extractive", path, task=question, settings=Settings())
    assert result.answer.startswith(start)
    assert result.confidence == "high"
    assert all(citation.verified for citation in result.citations)
    assert place in " ".join(citation.place for citation in result.citations)


async def test_tables_that_have_the_same_field_are_counted_one_by_one(run, tmp_path) -> None:
    as_database(tmp_path / "u.sqlite", USERS)
    result = await run(
        "extractive", tmp_path / "u.sqlite", task="How many have the status open?", settings=Settings()
    )
    assert "5 of 9 records of cards have status 'open'" in result.answer
    assert "32 of 41 records of users have status 'open'" in result.answer
    assert len(result.citations) == 6
