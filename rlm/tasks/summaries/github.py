"""Convert issues and pull requests from GitHub's API and `gh … --json` into chats."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

__all__ = ["as_chats", "has_reviews", "is_thread"]

_TALK = ("comments", "reviews", "review_comments", "reviewThreads", "timeline", "timelineItems", "commits")
_TIMES = ("created_at", "createdAt", "submitted_at", "submittedAt", "authoredDate", "committedDate")
_FACTS = ("state", "stateReason", "state_reason", "labels", "milestone", "assignees", "mergedAt", "merged_at")
_EVENTS = frozenset(("closed", "reopened", "merged", "labeled", "renamed", "assigned", "milestoned"))


def as_chats(value: Any) -> list[dict[str, Any]] | None:
    """Return `{"title", "messages"}` for each issue or pull request in `value`; None if there is none.
    Comments, reviews and commits are sorted by time."""
    return [_chat(one) for one in _threads(value)] or None


def _threads(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for one in value:
            if isinstance(one, Mapping) and is_thread(one):
                yield one
        return
    if not isinstance(value, Mapping):
        return
    if is_thread(value):
        yield value
        return
    # GraphQL: {"data": {"repository": {"issue": …}}}; the REST search: {"items": […]}
    for key in (
        "data",
        "repository",
        "issue",
        "pullRequest",
        "issues",
        "pullRequests",
        "search",
        "nodes",
        "items",
    ):
        if key in value:
            yield from _threads(value[key])


def is_thread(value: Mapping[str, Any]) -> bool:
    """Return whether `value` is an issue or pull request of GitHub's API."""
    return (
        isinstance(value.get("title"), str)
        and "body" in value
        and "messages" not in value
        and any(key in value for key in ("number", "html_url", "url", *_TALK))
        and ("number" in value or "comments" in value)
    )


def has_reviews(thread: Mapping[str, Any]) -> bool:
    """Return whether it has more than comments: reviews, commits, events."""
    return any(isinstance(thread.get(key), list | Mapping) and thread[key] for key in _TALK[1:])


def _chat(thread: Mapping[str, Any]) -> dict[str, Any]:
    number = thread.get("number")
    title = f"#{number} {thread['title']}" if number is not None else thread["title"]
    first = _start_message(thread)
    facts = [f"{key}: {_plain(thread[key])}" for key in _FACTS if _plain(thread.get(key))]
    first["content"] = "\n\n".join(filter(None, (thread["title"], thread.get("body"), "\n".join(facts))))
    later = [message for key in _TALK for message in _talk(thread.get(key), key)]
    later.sort(key=lambda message: message.get("created_at", ""))
    return {"title": title, "messages": [first, *later]}


def _talk(value: Any, kind: str) -> Iterator[dict[str, Any]]:
    nodes = value.get("nodes", ()) if isinstance(value, Mapping) else value
    if not isinstance(nodes, list | tuple):
        return  # without the comments themselves, REST gives their number
    for one in nodes:
        if not isinstance(one, Mapping):
            continue
        if kind == "reviewThreads":
            yield from _talk(one.get("comments"), "comments")
            continue
        message = _start_message(one.get("commit", one) if kind == "commits" else one)
        message["content"] = _content(one, kind)
        if message["content"].strip():
            yield message


def _content(one: Mapping[str, Any], kind: str) -> str:
    if kind == "commits":
        commit = one.get("commit", one)
        message = commit.get("message") or "\n\n".join(
            filter(None, (commit.get("messageHeadline"), commit.get("messageBody")))
        )
        return f"commit {str(one.get('oid') or one.get('sha') or '')[:10]}: {message}" if message else ""
    body = str(one.get("body") or "")
    if one.get("event") in _EVENTS and not body:
        return (
            f"{one['event']} {_plain(one.get('label') or one.get('rename') or one.get('assignee'))}".strip()
        )
    place = f"[{one['path']}] " if isinstance(one.get("path"), str) else ""
    state = one.get("state") if kind == "reviews" else None
    return f"{place}{f'review: {state} ' if state else ''}{body}".strip()


def _start_message(one: Mapping[str, Any]) -> dict[str, Any]:
    """Return a message with its author and time, still without content."""
    author = one.get("author") or one.get("user") or one.get("actor")
    if not author and isinstance(authors := one.get("authors"), list) and authors:
        author = authors[0]
    name = author if isinstance(author, str) else ""
    if isinstance(author, Mapping):
        name = str(author.get("login") or author.get("name") or "")
    time = next((one[key] for key in _TIMES if isinstance(one.get(key), str)), "")
    if not time and isinstance(author, Mapping):
        time = str(author.get("date") or "")
    return {"author": name or "unknown", "created_at": time}


def _plain(value: Any) -> str:
    """Return the name of a label, a milestone or a person, or the names of a list of them."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_plain, value)))
    if isinstance(value, Mapping):
        named = next((value[key] for key in ("name", "login", "title", "to") if value.get(key)), "")
        return str(named) if named else _plain(value.get("nodes"))
    return "" if value is None else str(value)
