"""Events of a journal as a page gets them: bounded, and without what the page cannot show."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm.journal.events import JournalEvent

__all__ = ["cut", "event_facts", "whole_event"]

_TEXT, _ITEMS, _EVENT = 4_000, 2_000, 40_000
"""Characters of a text, items of a list, and characters of all texts of an event in a page of them."""
_WHOLE_TEXT, _WHOLE = 200_000, 1_000_000
"""The same of one event that is shown by itself."""
_APART = frozenset({"report", "messages", "feedback"})


def event_facts(event: JournalEvent) -> dict[str, Any]:
    """Return an event of a page of events. Of the messages of a call the last is there, as `prompt`."""
    data = event.data
    shown = {**_prompt_facts(data), **{key: value for key, value in data.items() if key not in _APART}}
    if event.kind in ("finished", "part_ended"):
        # The result is in the overview; that of a part may be a report.
        answer = (data if event.kind == "finished" else _mapping(data.get("result"))).get("answer")
        kept = {key: data.get(key) for key in ("name", "error", "within", "stop_reason", "seen")}
        shown = {**kept, "answer": answer, "cited": _cited(data)}
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "data": bounded(shown, [_EVENT], _TEXT),
    }


def whole_event(event: JournalEvent) -> dict[str, Any]:
    """Return one event, up to a million characters, with the new messages of its call."""
    left = [_WHOLE]
    data = {key: value for key, value in event.data.items() if key not in _APART - {"feedback"}}
    return {
        "seq": event.seq,
        "at": event.at,
        "kind": event.kind,
        "data": bounded(data, left, _WHOLE_TEXT),
        "messages": [
            {"role": role, "text": bounded(text, left, _WHOLE_TEXT)}
            for role, text in _messages(event.data)[:_ITEMS]
        ],
        "sections": _sections(_mapping(event.data.get("report"))),
        "cut": left[0] <= 0,
    }


def bounded(value: Any, left: list[int], text: int) -> Any:
    """Return the value with texts above `text` characters and long lists cut. `left` counts down what more
    may be returned."""
    if isinstance(value, str):
        most = max(0, min(text, left[0]))
        left[0] -= min(len(value), most)
        return value if len(value) <= most else f"{value[:most]}… ({len(value) - most:,} more characters)"
    if isinstance(value, list | tuple):
        return [bounded(one, left, text) for one in value[:_ITEMS]]
    if isinstance(value, Mapping):
        return {str(key)[:200]: bounded(one, left, text) for key, one in list(value.items())[:_ITEMS]}
    return value


def cut(value: object, size: int) -> str:
    """Return the first `size` characters of a text, with a mark if more follow."""
    text = value if isinstance(value, str) else str(value)
    return text if len(text) <= size else text[: size - 1] + "…"


def _prompt_facts(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return the sections of a prompt, what was cut of it, and its last message."""
    report, messages = _mapping(data.get("report")), _messages(data)
    return {
        **({"sections": _sections(report), "actions": report.get("actions")} if report else {}),
        **({"prompt": cut(messages[-1][1], 400)} if messages and data.get("role") != "root" else {}),
    }


def _messages(data: Mapping[str, Any]) -> list[tuple[str, str]]:
    """Return role and text of the messages that this call was sent and the one before it was not. A piece of
    the input is named by its place."""
    return [
        (str(one.get("role", "")), _shown(one.get("content")))
        for one in _sequence(data.get("messages"))
        if isinstance(one, Mapping)
    ]


def _shown(content: Any) -> str:
    if isinstance(content, str):
        return content
    return "".join(
        f"[characters {piece[0]:,} to {piece[1]:,}]" if is_span(piece) else str(piece)
        for piece in _sequence(content)
    )


def _sections(report: Mapping[str, Any]) -> list[dict[str, Any]]:
    """Return the sections of a prompt with their tokens before and after it was cut to its size."""
    sums: dict[str, dict[str, Any]] = {}
    for decision in _sequence(report.get("decisions")):
        one = _mapping(decision)
        name = cut(one.get("section", ""), 60)
        section = sums.setdefault(name, {"section": name, "before": 0, "after": 0, "cut": []})
        section["before"] += _number(one.get("tokens_before"))
        section["after"] += _number(one.get("tokens_after"))
        if one.get("status") != "included" and len(section["cut"]) < 20:
            section["cut"].append(cut(f"{one.get('id')}: {one.get('status')} ({one.get('reason')})", 200))
    return list(sums.values())[:40]


def _cited(data: Mapping[str, Any]) -> list[list[int]]:
    places = ([one.get("start"), one.get("end")] for one in _sequence(data.get("citations")))
    return [place for place in places if is_span(place)]


def is_span(value: Any) -> bool:
    """Return whether a value is two numbers."""
    return isinstance(value, list | tuple) and len(value) == 2 and all(type(one) is int for one in value)


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _sequence(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list | tuple) else ()


def _number(value: Any) -> int:
    return value if type(value) is int else 0
