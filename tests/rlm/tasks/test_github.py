"""Issues and pull requests of GitHub become chats, from every API."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

import pytest

from rlm.documents import PathSource, StreamSource, TextSource, load, sources_of
from rlm.tasks.summaries import boards
from rlm.tasks.summaries.boards import with_cards
from rlm.tasks.summaries.entries import entries_of
from rlm.tasks.summaries.github import as_chats

GH = {
    "number": 12,
    "title": "Refund twice",
    "body": "Customers got it twice.",
    "author": {"login": "ann"},
    "createdAt": "2026-05-01T10:00:00Z",
    "state": "OPEN",
    "labels": [{"name": "bug"}],
    "comments": [
        {"author": {"login": "ben"}, "body": "Second.", "createdAt": "2026-05-01T12:00:00Z"},
        {"author": {"login": "cy"}, "body": "First.", "createdAt": "2026-05-01T11:00:00Z"},
    ],
    "reviews": [
        {
            "author": {"login": "dee"},
            "state": "APPROVED",
            "body": "Fine.",
            "submittedAt": "2026-05-02T00:00:00Z",
        }
    ],
    "commits": [
        {
            "oid": "0123456789abcdef",
            "messageHeadline": "Add the index",
            "authors": [{"login": "ben"}],
            "authoredDate": "2026-05-01T11:30:00Z",
        }
    ],
}
REST = {
    "number": 12,
    "html_url": "https://example.org/12",
    "title": "Refund twice",
    "body": None,
    "user": {"login": "ann"},
    "created_at": "2026-05-01T10:00:00Z",
    "comments": 1,
}
GRAPHQL = {
    "data": {
        "repository": {
            "issue": {
                "number": 12,
                "title": "Refund twice",
                "body": "Twice.",
                "author": {"login": "ann"},
                "createdAt": "2026-05-01T10:00:00Z",
                "comments": {
                    "nodes": [{"author": None, "body": "Gone user.", "createdAt": "2026-05-03T00:00:00Z"}]
                },
            }
        }
    }
}


def said(value: Any) -> list[tuple[str, str]]:
    chats = as_chats(value)
    assert chats is not None
    return [(one["author"], one["content"].splitlines()[0]) for chat in chats for one in chat["messages"]]


def test_an_issue_of_gh_has_comments_reviews_and_commits_in_the_order_of_time() -> None:
    assert said(GH) == [
        ("ann", "Refund twice"),
        ("cy", "First."),
        ("ben", "commit 0123456789: Add the index"),
        ("ben", "Second."),
        ("dee", "review: APPROVED Fine."),
    ]
    chats = as_chats(GH)
    assert chats is not None
    assert "state: OPEN\nlabels: bug" in chats[0]["messages"][0]["content"]


def test_review_threads_and_events_of_an_issue_are_messages() -> None:
    def at(hour: int) -> str:
        return f"2026-05-03T{hour:02}:00:00Z"

    review = {"author": {"login": "eve"}, "body": "Why?", "path": "src/lock.py", "createdAt": at(2)}
    events = [
        {"event": "labeled", "actor": {"login": "fay"}, "label": {"name": "bug"}, "created_at": at(1)},
        {"event": "subscribed", "actor": {"login": "gus"}, "created_at": at(3)},
        {"event": "closed", "actor": {"login": "ann"}, "created_at": at(4)},
    ]
    value = {**REST, "reviewThreads": {"nodes": [{"comments": {"nodes": [review]}}]}, "timeline": events}
    assert said(value)[1:] == [("fay", "labeled bug"), ("eve", "[src/lock.py] Why?"), ("ann", "closed")]


@pytest.mark.parametrize(
    ("value", "expected"),
    [
        (REST, [("ann", "Refund twice")]),
        ([REST, REST], [("ann", "Refund twice"), ("ann", "Refund twice")]),
        (GRAPHQL, [("ann", "Refund twice"), ("unknown", "Gone user.")]),
        ({"items": [REST]}, [("ann", "Refund twice")]),
    ],
    ids=["rest", "list", "graphql", "search"],
)
def test_every_shape_of_the_api_is_supported(value: Any, expected: list[tuple[str, str]]) -> None:
    assert said(value) == expected


@pytest.mark.parametrize(
    "value", [{}, [], 3, {"title": "A page", "body": "x"}, [{"a": 1}], {"messages": [], "title": "c"}]
)
def test_other_json_is_unchanged(value: Any) -> None:
    assert as_chats(value) is None


def test_files_and_streams_become_messages_with_places(tmp_path: Path) -> None:
    file = tmp_path / "issue.json"
    file.write_text(json.dumps(GH))
    for source in (PathSource(file), *sources_of(file), StreamSource("stdin", io.BytesIO(file.read_bytes()))):
        with load(with_cards([source])[0], tmp_path / f"c{id(source)}").context.open() as body:
            entries = entries_of(body)
            talk = [one for one in entries if one.message.author == "cy"]
            assert [(one.message.content, one.message.created_at) for one in talk] == [
                ("First.", "2026-05-01T11:00:00Z")
            ]


def test_a_stream_that_is_not_an_issue_can_still_be_read(tmp_path: Path) -> None:
    for text in (b"plain words", b'{"a": 1}', b"{broken"):
        (source,) = with_cards([StreamSource("stdin", io.BytesIO(text))])[0]
        with load([source], tmp_path / str(len(text))).context.open() as body:
            assert body.text(0, body.chars).encode() == text


def test_a_thread_in_a_text_and_in_a_stream_is_a_chat() -> None:
    ann, bob = ({"login": name} for name in ("ann", "bob"))
    comment = {"user": bob, "body": "Fixed.", "created_at": "2026-01-02T00:00:00Z"}
    thread = {"number": 7, "title": "Crash", "body": "It crashes.", "user": ann, "comments": [comment]}
    raw = json.dumps({**thread, "created_at": "2026-01-01T00:00:00Z"})
    for source in (TextSource("i.json", raw, "json"), StreamSource("stdin", io.BytesIO(raw.encode()))):
        (found,) = with_cards([source])[0]
        assert isinstance(found, TextSource)
        assert "messages" in json.loads(found.text)


def test_a_long_stream_is_not_kept_in_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is examined up to a limit, and read on from its beginning."""
    monkeypatch.setattr(boards, "_MAX_BYTES", 100)
    data = b"[" + b"line of a log\n" * 100
    stream = io.BytesIO(data)
    (found,) = with_cards([StreamSource("stdin", stream)])[0]
    assert isinstance(found, StreamSource)
    assert stream.tell() <= 101
    assert found.stream.read() == data
