"""Boards and cards of issue trackers are read as cards, not as JSON."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from rlm import RLM, Settings
from rlm.documents import PathSource, StreamSource, TextSource
from rlm.errors import ModelUnavailable
from rlm.tasks.summaries.boards import with_cards
from rlm.tasks.summaries.cards import card_of
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
    assert (found.kind, found.messages, found.form) == ("history", 30, "board")
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
    assert "app-28: Sign-in fails after the clock changes (28)\nState: open\nKind: bug, priority 0" in prompt
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


@pytest.mark.parametrize(
    "text",
    ["{broken", "[]", "3", json_lines([{"a": 1}, {"b": 2}]), json_lines([*board()[:2], {"a": 1}, {"b": 2}]),
     json.dumps({"readme": "long words " * 900, "tasks": board()[:2]})],
)  # fmt: skip
def test_other_json_is_unchanged(tmp_path: Path, text: str) -> None:
    path = tmp_path / "rows.json"
    path.write_text(text)
    sources, cards = with_cards([PathSource(path), TextSource("rows", text, "jsonl")])
    assert sources == [PathSource(path), TextSource("rows", text, "jsonl")]
    assert not cards


def test_pull_requests_with_reviews_stay_conversations() -> None:
    pull = {**GITHUB, "reviews": [{"author": {"login": "cy"}, "body": "Why?", "state": "COMMENTED"}]}
    source = TextSource("pulls.json", json.dumps([pull, GITHUB]), "json")
    (found,), cards = with_cards([source])
    assert cards == {}
    assert "review: COMMENTED Why?" in found.text  # type: ignore[union-attr]
    sources, cards = with_cards([TextSource("issues.json", json.dumps([GITHUB, GITHUB]), "json")])
    assert sources != [source]
    assert [card.id for card in cards.values()] == ["#3"]


async def test_a_broken_line_of_a_board_is_kept(summary: Summarize) -> None:
    text = json_lines(board()) + '\n{"id": "app-31", "title": "Cut off'
    model = ScriptedModel.of(summary="A board [m1].")
    found = await summary(TextSource("board.jsonl", text, "jsonl"), model, tokens=2_500)
    assert found.messages == 31
    assert "30 cards" in model.requests[0].messages[-1].content


EPICS = """# CARD PAY-101 Refund twice

[2026-05-01] {"status": "open", "priority": 1, "assignee": "ann"}
[2026-05-01] Ann: Customers are refunded twice when the webhook is sent again.
[2026-05-02] Ben: We decided to store the event id in refund_events.
[2026-05-03] {"status": "closed", "close_reason": "Fixed in PR #12: unique index on the event id"}

# CARD PAY-102 Rate limit

[2026-05-02] {"status": "in_progress", "blocked_by": ["PAY-101"]}
[2026-05-04] Ann: It failed with sqlite3.OperationalError: database is locked.
[2026-05-05] Ben: Still to do: 50 requests per minute. The reply is {"status": 429}
"""


@pytest.mark.parametrize("name", ["epics.md", "epics.txt"])
async def test_the_changes_in_a_text_of_cards_are_told_in_words(
    summary: Summarize, tmp_path: Path, name: str
) -> None:
    (tmp_path / name).write_text(EPICS)
    found = await summary(tmp_path / name, tokens=700)
    assert_is_plain(found.text.replace('{"status": 429}', ""))
    assert (
        "State of PAY-101 Refund twice – status: closed; close reason: Fixed in PR #12: unique index on the "
        "event id. [m4]" in found.text
    )
    assert "State of PAY-102 Rate limit – status: in_progress; blocked by: PAY-101. [m5]" in found.text
    assert "store the event id in refund_events" in found.text


def test_other_texts_are_unchanged() -> None:
    texts = ['# Notes\n[2026-05-01] {"status": "open"}\n', '# CARD A\n{"colour": 3}\n# CARD B\nwords\n']
    given = [TextSource("notes.md", text, "markdown") for text in texts]
    assert with_cards(given) == (given, {})
