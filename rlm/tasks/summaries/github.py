"""Issues and pull requests as GitHub's API and `gh … --json` give them, turned into chats."""

from __future__ import annotations

import io
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from rlm.documents import PathSource, Source, StreamSource, TextSource, as_source

__all__ = ["as_chats", "with_chats"]

_LARGEST = 64 << 20
"""Bytes of a file that is looked into."""
_TALK = ("comments", "reviews", "review_comments", "reviewThreads", "timeline", "timelineItems", "commits")
_MOMENTS = ("created_at", "createdAt", "submitted_at", "submittedAt", "authoredDate", "committedDate")
_FACTS = ("state", "stateReason", "state_reason", "labels", "milestone", "assignees", "mergedAt", "merged_at")
_EVENTS = frozenset(("closed", "reopened", "merged", "labeled", "renamed", "assigned", "milestoned"))


def with_chats(sources: Sequence[str | Path | Source]) -> list[str | Path | Source]:
    """The sources, those that are issues or pull requests of GitHub (a JSON file, or a stream) as chats."""
    return [_with_chat(source) for source in sources]


def as_chats(value: Any) -> list[dict[str, Any]] | None:
    """`{"title", "messages"}` for each issue or pull request in `value`, its comments, reviews and commits in
    the order of their times; None when it holds none."""
    found = list(_threads(value))
    return [_chat(one) for one in found] or None


def _with_chat(source: str | Path | Source) -> str | Path | Source:
    match as_source(source):
        case StreamSource(name, stream):
            data = stream.read()
            if data.lstrip()[:1] not in (b"{", b"["):
                return StreamSource(name, io.BytesIO(data))
            return _converted(name, data) or StreamSource(name, io.BytesIO(data))
        case PathSource(path):
            pass
        case _:
            return source
    try:
        if path.suffix.lower() != ".json" or not path.is_file() or path.stat().st_size > _LARGEST:
            return source
        data = path.read_bytes()
    except OSError:
        return source  # the loader says what is wrong with it
    return _converted(path.name, data) or source


def _converted(name: str, data: bytes) -> TextSource | None:
    try:
        chats = as_chats(json.loads(data))
    except (ValueError, RecursionError):
        return None
    if chats is None:
        return None
    return TextSource(name, json.dumps(chats[0] if len(chats) == 1 else chats, ensure_ascii=False), "json")


def _threads(value: Any) -> Iterator[Mapping[str, Any]]:
    if isinstance(value, list):
        for one in value:
            if isinstance(one, Mapping) and _is_thread(one):
                yield one
        return
    if not isinstance(value, Mapping):
        return
    if _is_thread(value):
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


def _is_thread(value: Mapping[str, Any]) -> bool:
    return (
        isinstance(value.get("title"), str)
        and "body" in value
        and "messages" not in value
        and any(key in value for key in ("number", "html_url", "url", *_TALK))
        and ("number" in value or "comments" in value)
    )


def _chat(thread: Mapping[str, Any]) -> dict[str, Any]:
    number = thread.get("number")
    title = f"#{number} {thread['title']}" if number is not None else thread["title"]
    first = _said(thread)
    facts = [f"{key}: {_plain(thread[key])}" for key in _FACTS if _plain(thread.get(key))]
    first["content"] = "\n\n".join(filter(None, (thread["title"], thread.get("body"), "\n".join(facts))))
    later = [message for key in _TALK for message in _talk(thread.get(key), key)]
    later.sort(key=lambda message: message.get("created_at", ""))
    return {"title": title, "messages": [first, *later]}


def _talk(value: Any, kind: str) -> Iterator[dict[str, Any]]:
    nodes = value.get("nodes", ()) if isinstance(value, Mapping) else value
    if not isinstance(nodes, list | tuple):
        return  # REST gives the number of comments where it does not give them
    for one in nodes:
        if not isinstance(one, Mapping):
            continue
        if kind == "reviewThreads":
            yield from _talk(one.get("comments"), "comments")
            continue
        said = _said(one.get("commit", one) if kind == "commits" else one)
        said["content"] = _words(one, kind)
        if said["content"].strip():
            yield said


def _words(one: Mapping[str, Any], kind: str) -> str:
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


def _said(one: Mapping[str, Any]) -> dict[str, Any]:
    who = one.get("author") or one.get("user") or one.get("actor")
    if not who and isinstance(authors := one.get("authors"), list) and authors:
        who = authors[0]
    name = who if isinstance(who, str) else ""
    if isinstance(who, Mapping):
        name = str(who.get("login") or who.get("name") or "")
    when = next((one[key] for key in _MOMENTS if isinstance(one.get(key), str)), "")
    if not when and isinstance(who, Mapping):
        when = str(who.get("date") or "")
    return {"author": name or "unknown", "created_at": when}


def _plain(value: Any) -> str:
    """A label, a milestone, a list of them, by name."""
    if isinstance(value, list):
        return ", ".join(filter(None, map(_plain, value)))
    if isinstance(value, Mapping):
        named = next((value[key] for key in ("name", "login", "title", "to") if value.get(key)), "")
        return str(named) if named else _plain(value.get("nodes"))
    return "" if value is None else str(value)
