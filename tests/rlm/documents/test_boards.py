"""Boards, cards and threads of issue trackers are messages for every command, not JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.documents import StreamSource, TextSource, load
from rlm.documents.cards import Card, card_of
from rlm.errors import ModelUnavailable
from rlm.sandbox.in_kernel.handle import Handle
from rlm.tasks.summaries.summarize import Summary, summarize
from rlm.testing import ScriptedModel

Summarize = Callable[..., Any]

WORK = (
    ("Parser loses the last line of a file without a newline", "bug"),
    ("Export the ledger as CSV", "feature"),
    ("Move the nightly backup to the second region", "task"),
    ("Sign-in fails after the clock changes", "bug"),
    ("Search by customer number", "feature"),
)
WHY = (
    "Fixed in PR #{n}: the buffer is flushed at the end of the file",
    "Merged in PR #{n}, shipped with 2.{n}.0",
    "Duplicate of app-{n}",
    "Closed",
    "Won't fix: the provider drops this API in May",
)


def board() -> list[dict[str, Any]]:
    """A board of 30 cards: 18 closed, 2 in progress, 10 open, of which app-28 waits for app-27."""
    cards = []
    for n in range(1, 31):
        title, kind = WORK[n % len(WORK)]
        card: dict[str, Any] = {
            "id": f"app-{n}",
            "title": f"{title} ({n})",
            "description": f'Seen on host {n}.\n\n1. Run `load`\n2. It prints {{"error": {n}}}',
            "status": "open",
            "priority": n % 4,
            "issue_type": kind,
            "created_at": f"2026-03-{n:02}T09:00:00.123456789-07:00",
            "updated_at": f"2026-04-{n:02}T09:00:00-07:00",
        }
        if n <= 18:
            card |= {
                "status": "closed",
                "closed_at": f"2026-04-{n:02}T09:00:00-07:00",
                "close_reason": WHY[n % len(WHY)].format(n=n),
            }
        elif n <= 20:
            card |= {"status": "in_progress", "assignee": "ann"}
            card["comments"] = [{"author": "ben", "text": f"Half done, {n} of 40 tables moved.",
                                 "created_at": "2026-04-29T10:00:00Z"}]  # fmt: skip
        cards.append(card)
    cards[27]["dependencies"] = [
        {"issue_id": "app-28", "depends_on_id": "app-27", "type": "blocks"},
        {"issue_id": "app-28", "depends_on_id": "app-1", "type": "blocks"},
        {"issue_id": "app-28", "depends_on_id": "app-5", "type": "parent-child"},
    ]
    return cards


def json_lines(values: list[Any]) -> str:
    return "\n".join(json.dumps(one) for one in values)


@pytest.fixture
def summary(tmp_path: Path) -> Summarize:
    async def run(source: Any, model: ScriptedModel | None = None, **options: Any) -> Summary:
        # Where the model fails, the lines are computed.
        model = model or ScriptedModel.of(summary=ModelUnavailable("gone for good"))
        return await summarize(RLM(model, settings=Settings(store=tmp_path / "rlm.db")), source, **options)

    return run


def assert_is_plain(text: str) -> None:
    assert not re.search(r'\{"|":|\\n|\\u00', text), text


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("board.jsonl", json_lines(board())),
        ("board.json", json.dumps(board(), indent=1)),
        ("board.json", json.dumps({"total": 30, "issues": board()})),
        ("board.json", json.dumps({"data": {"issues": {"nodes": board()}}})),
    ],
    ids=["lines", "array", "issues", "graphql"],
)
async def test_a_board_is_given_to_the_model_as_cards_with_exact_counts(
    summary: Summarize, tmp_path: Path, name: str, text: str
) -> None:
    (tmp_path / name).write_text(text)
    model = ScriptedModel.of(summary="Fixed: the parser [m15].")
    found = await summary(tmp_path / name, model, tokens=2_500)
    assert (found.kind, found.form) == ("history", "board")
    assert found.messages == 30 + ("total" in text)
    prompt = model.requests[0].messages[-1].content
    computed = prompt.partition("Computed from the whole text")[2].partition("---")[0]
    assert "30 cards: closed 18, open 10, in progress 2" in computed
    assert "Created from 2026-03-01 to 2026-03-30" in computed
    assert "Blocked: app-28 by app-27 (open)." in computed
    assert "Fixed in PR #15: the buffer is flushed at the end of the file" in prompt
    (cited,) = found.result.citations
    assert cited.verified
    assert (cited.author, cited.quote[:14]) == ("app-15", "app-15: Parser")


async def test_a_model_reads_cards_and_the_counts_are_computed(summary: Summarize) -> None:
    model = ScriptedModel.of(summary="## Remaining Work\n- Search by customer number is open [m29]\n")
    found = await summary(TextSource("board.jsonl", json_lines(board()), "jsonl"), model, tokens=900)
    prompt = "".join(message.content for message in model.requests[0].messages)
    assert "app-28: Move the nightly" not in prompt
    assert "app-28: Sign-in fails after the clock changes (28)\nState: open\nKind: bug\nPriority: 0" in prompt
    assert "Blocked by: app-27, app-1" in prompt
    assert '"close_reason"' not in prompt
    assert "closed 18, open 10, in progress 2" in prompt.partition("Computed from the whole text")[2]
    assert "Search by customer number is open [m29]" in found.text


CARD = {
    "id": "app-7",
    "title": "Sync reads every file again",
    "description": "After the upgrade the sync must not read files again that have not changed.",
    "status": "closed",
    "priority": 1,
    "issue_type": "bug",
    "created_at": "2026-04-09T14:21:00Z",
    "closed_at": "2026-04-12T14:21:00Z",
    "close_reason": "Fixed by hashing the contents (PR #12)",
    "comments": [
        {"id": 1, "author": "Ann", "text": "We decided to store a hash of each file.",
         "created_at": "2026-04-10T00:00:00Z"},
        {"id": 2, "author": "Ben", "text": "Still to do: a migration for old stores.",
         "created_at": "2026-04-11T00:00:00Z"},
    ],
}  # fmt: skip


@pytest.mark.parametrize("text", [json.dumps(CARD, indent=2), json.dumps(CARD)], ids=["pretty", "line"])
async def test_a_single_card_is_its_state_and_the_history_of_its_comments(
    summary: Summarize, text: str
) -> None:
    for source in (TextSource("card.json", text, "json"), StreamSource("stdin", io.BytesIO(text.encode()))):
        found = await summary(source, tokens=500)
        assert found.messages == 3
        assert_is_plain(found.text)
        assert "store a hash of each file. [m2]" in found.text
        assert "migration for old stores. [m3]" in found.text


GITHUB = {
    "number": 3, "title": "Crash at start", "body": "It crashes.", "state": "CLOSED",
    "stateReason": "NOT_PLANNED", "labels": [{"name": "bug"}], "assignees": [{"login": "ann"}],
    "createdAt": "2026-01-01T00:00:00Z", "closedAt": "2026-01-02T00:00:00Z",
    "comments": [{"author": {"login": "ben"}, "body": "Not ours.", "createdAt": "2026-01-02T00:00:00Z"}],
}  # fmt: skip
JIRA = {
    "key": "PAY-9",
    "fields": {
        "summary": "Pay twice", "status": {"name": "In Review", "statusCategory": {"key": "indeterminate"}},
        "issuetype": {"name": "Bug"}, "priority": {"name": "High"}, "assignee": {"displayName": "Ann"},
        "created": "2026-01-01T00:00:00.000+0000", "resolution": None,
        "description": {"type": "doc", "content": [{"type": "paragraph", "content": [{"text": "Twice."}]}]},
        "issuelinks": [{"type": {"inward": "is blocked by"}, "inwardIssue": {"key": "PAY-2"}}],
        "comment": {"comments": [{"author": {"displayName": "Ben"}, "body": "Seen."}]},
    },
}  # fmt: skip
LINEAR = {
    "identifier": "ENG-4", "title": "Slow list", "state": {"name": "Shipped it", "type": "completed"},
    "priority": 1, "priorityLabel": "Urgent", "createdAt": "2026-01-01T00:00:00Z",
    "completedAt": "2026-01-05T00:00:00Z", "labels": {"nodes": [{"name": "ui"}]},
    "relations": {"nodes": [{"type": "blocks", "relatedIssue": {"identifier": "ENG-5"}}]},
}  # fmt: skip
TRELLO = {"id": "5f", "name": "Paint the door", "desc": "Green.", "closed": False, "labels": []}


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (GITHUB, {"id": "#3", "state": "closed", "group": "done", "reason": "NOT PLANNED", "labels": "bug",
                  "people": "ann", "closed": "2026-01-02T00:00:00Z"}),
        (JIRA, {"id": "PAY-9", "title": "Pay twice", "state": "In Review", "group": "active", "kind": "Bug",
                "rank": 1, "people": "Ann", "description": "Twice.", "blocked_by": ("PAY-2",)}),
        (LINEAR, {"id": "ENG-4", "group": "done", "priority": "Urgent", "rank": 0, "labels": "ui",
                  "blocks": ("ENG-5",), "closed": "2026-01-05T00:00:00Z"}),
        (TRELLO, {"title": "Paint the door", "state": "open", "group": "open", "description": "Green."}),
    ],
    ids=["github", "jira", "linear", "trello"],
)  # fmt: skip
def test_the_exports_of_trackers_are_cards(value: Any, expected: Mapping[str, Any]) -> None:
    card = card_of(value)
    assert card is not None
    assert {key: getattr(card, key) for key in expected} == expected


@pytest.mark.parametrize(
    "value",
    [
        {"id": 1, "name": "web", "status": "up", "created_at": "2026-01-01"},
        {"title": "A page", "body": "x"},
        {"title": "t", "status": 200, "type": "page"},
        {"id": "t1", "title": "test_a", "status": "passed", "seconds": 3},
        {"title": "c", "state": "open", "description": "", "messages": []},
        [1, 2],
        "open",
    ],
)
def test_other_values_are_no_cards(value: Any) -> None:
    assert card_of(value) is None


def loaded(value: Any, folder: Path, name: str = "board.json") -> tuple[str, str, list[tuple[str, str, str]]]:
    """Return the kind and the text of the document, and author, time and text of its messages."""
    folder.mkdir(exist_ok=True)
    (folder / name).write_text(value if isinstance(value, str) else json.dumps(value))
    with load([folder / name], folder / f"c-{name}").context.open() as body:
        found = []
        for row in range(len(body.marks.messages)):
            start, end, _ = body.marks.messages.row(row)
            header, _, words = body.text(start, end).partition("\n")
            known = body.marks.header(row, header)
            found.append((known.author, known.time, words.strip()))
        return body.documents[0].kind, body.text(0, body.chars), found


@pytest.mark.parametrize(
    "text",
    ["{broken", "[]", "3", json_lines([{"a": 1}, {"b": 2}]), json_lines([*board()[:2], {"a": 1}, {"b": 2}]),
     '{"data": {"items": [{"a": 1}]}}'],
)  # fmt: skip
def test_other_json_is_unchanged(tmp_path: Path, text: str) -> None:
    for name in ("rows.json", "rows.jsonl", "rows.txt"):
        kind, whole, messages = loaded(text, tmp_path, name)
        assert (whole, messages) == (text, [])
        assert kind in ("json", "jsonl", "text")


def test_what_lies_beside_the_cards_is_kept(tmp_path: Path) -> None:
    """The other fields of a card, and of the object that holds the cards, are JSON behind them."""
    cards = [{**one, "customer": {"name": "ACME", "self": "x"}} for one in board()[:3]]
    kind, text, messages = loaded({"sprint": {"goal": "Ship"}, "issues": cards, "total": 3}, tmp_path)
    assert (kind, len(messages)) == ("board", 3)
    assert messages[0][2].endswith('{"customer": {"name": "ACME"}}')
    assert 'sprint: {"goal": "Ship"}' in text
    assert "total: 3" in text


def test_a_card_is_read_back_from_its_text() -> None:
    for value in (*board(), JIRA, LINEAR, TRELLO, CARD):
        card = card_of(value)
        assert card is not None
        back = Card.read(card.text(), card.id)
        for field in ("id", "title", "state", "group", "kind", "priority", "blocked_by", "blocks", "rank"):
            assert getattr(back, field) == getattr(card, field)
        assert back.created == card.created[:10]


PULL = {
    "number": 12, "title": "Refund twice", "body": "Customers got it twice.", "author": {"login": "ann"},
    "createdAt": "2026-05-01T10:00:00Z", "state": "OPEN", "labels": [{"name": "bug"}],
    "comments": [
        {"author": {"login": "ben"}, "body": "Second.", "createdAt": "2026-05-01T12:00:00Z"},
        {"author": {"login": "cy"}, "body": "First.", "createdAt": "2026-05-01T11:00:00Z"},
    ],
    "reviews": [{"author": {"login": "dee"}, "state": "APPROVED", "body": "Fine.",
                 "submittedAt": "2026-05-02T00:00:00Z"}],
    "commits": [{"oid": "0123456789abcdef", "messageHeadline": "Add the index",
                 "authors": [{"login": "ben"}], "authoredDate": "2026-05-01T11:30:00Z"}],
    "reviewThreads": {"nodes": [{"comments": {"nodes": [
        {"author": {"login": "eve"}, "body": "Why?", "path": "src/lock.py",
         "createdAt": "2026-05-03T02:00:00Z"},
    ]}}]},
    "timeline": [
        {"event": "labeled", "actor": {"login": "fay"}, "label": {"name": "bug"},
         "created_at": "2026-05-03T01:00:00Z"},
        {"event": "subscribed", "actor": {"login": "gus"}, "created_at": "2026-05-03T03:00:00Z"},
    ],
}  # fmt: skip
REST = {
    "number": 7, "html_url": "https://example.org/7", "title": "Crash", "body": None,
    "user": {"login": "ann"},
    "created_at": "2026-05-01T10:00:00Z", "comments": 1,
}  # fmt: skip


def test_a_pull_request_is_a_conversation_in_the_order_of_time(tmp_path: Path) -> None:
    for value in (PULL, [PULL], {"data": {"repository": {"pullRequest": PULL}}}):
        kind, text, messages = loaded(value, tmp_path / f"{len(json.dumps(value))}")
        assert kind == "chat"
        assert text.startswith("# #12: Refund twice\n[1] ann 2026-05-01T10:00:00Z\n")
        assert [(author, words.splitlines()[0]) for author, _, words in messages] == [
            ("ann", "#12: Refund twice"),
            ("cy", "First."),
            ("ben", "commit 0123456789: Add the index"),
            ("ben", "Second."),
            ("dee", "review: APPROVED Fine."),
            ("fay", "labeled bug"),
            ("eve", "[src/lock.py] Why?"),
        ]
        assert "State: open" in messages[0][2]


@pytest.mark.parametrize(
    ("value", "kind", "count"),
    [
        (REST, "chat", 1),
        ([REST, REST], "board", 2),
        ({"items": [REST]}, "chat", 1),
        ([PULL, REST], "chat", 8),
    ],
    ids=["rest", "list", "search", "mixed"],
)
def test_every_shape_of_the_api_is_supported(value: Any, kind: str, count: int, tmp_path: Path) -> None:
    found, _, messages = loaded(value, tmp_path)
    assert (found, len(messages)) == (kind, count)
    assert messages[0][2].startswith(("#7: Crash", "#12: Refund twice"))


def test_rows_of_a_board_have_its_facts(tmp_path: Path) -> None:
    cards = [{**card, "created_by": f"person {number}"} for number, card in enumerate(board()[:29])]
    (tmp_path / "board.jsonl").write_text(json_lines([*cards, board()[29]]))
    with load([tmp_path / "board.jsonl"], tmp_path / "c").context.open() as body:
        rows = list(Handle(body).read_records())
    assert len(rows) == 30
    # The head of its message names the card, and not who wrote it.
    assert (rows[27].value["author"], rows[29].value["author"]) == ("person 27", "")
    assert (rows[27].value["id"], rows[27].value["state"]) == ("app-28", "open")
    assert rows[27].value["blocked by"] == "app-27, app-1"


async def test_a_broken_line_of_a_board_is_kept(summary: Summarize) -> None:
    text = json_lines(board()) + '\n{"id": "app-31", "title": "Cut off'
    model = ScriptedModel.of(summary="A board [m1].")
    found = await summary(TextSource("board.jsonl", text, "jsonl"), model, tokens=2_500)
    assert found.messages == 31
    assert "30 cards" in model.requests[0].messages[-1].content
