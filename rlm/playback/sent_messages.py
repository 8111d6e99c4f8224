"""The messages of a run's calls as its journal keeps them: word for word, a piece of the input as its span.

A root's requests begin with the messages of the request before, and children share their system prompt. So
an event holds how many messages it shares with the call before it of the same role, and the rest.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from rlm.models.base import Message, Request, SliceText
from rlm.sandbox.types import Span

__all__ = ["ReadMessages", "SentMessages", "text_of"]

_Content = str | list[str | list[int]]


class SentMessages:
    """Makes the fields of one log's events. `has_spans`: slices are written as spans of the input."""

    def __init__(self, *, has_spans: bool) -> None:
        self._has_spans = has_spans
        self._last: dict[str, tuple[Message, ...]] = {}

    def fields(self, request: Request) -> dict[str, Any]:
        """Return the fields of a call's event: its new `messages`, and how many are `kept` of the one before.
        Write the events in the order of these calls."""
        before, messages = self._last.get(request.role, ()), request.messages
        kept = 0
        while kept < min(len(before), len(messages) - 1) and _is_same(before[kept], messages[kept]):
            kept += 1
        self._last[request.role] = messages
        slices = request.slices if self._has_spans else ()
        return {"kept": kept, "messages": [_written(one, slices) for one in messages[kept:]]}


class ReadMessages:
    """Reads the messages of one log's calls back, event by event."""

    def __init__(self) -> None:
        self._last: dict[str, tuple[Mapping[str, Any], ...]] = {}

    def read(self, data: Mapping[str, Any]) -> tuple[Mapping[str, Any], ...]:
        """Return all messages of the call whose event has this data, as the journal holds them."""
        messages = (*self._last.get(data["role"], ())[: data["kept"]], *data["messages"])
        self._last[data["role"]] = messages
        return messages


def text_of(content: _Content, read: Callable[[Span], str]) -> str:
    """Return the text of a message's `content`. `read` returns the text of a span of the input."""
    if isinstance(content, str):
        return content
    return "".join(piece if isinstance(piece, str) else read(Span(*piece)) for piece in content)


def _is_same(one: Message, other: Message) -> bool:
    return one is other or (one.role, one.content, one.images) == (other.role, other.content, other.images)


def _written(message: Message, slices: Sequence[SliceText]) -> dict[str, Any]:
    pictures = {"pictures": len(message.images)} if message.images else {}
    return {"role": message.role, "content": _with_spans(message.content, slices), **pictures}


def _with_spans(text: str, slices: Sequence[SliceText]) -> _Content:
    pieces: list[str | list[int]] = []
    position = 0
    for one in slices:
        at = text.find(one.text, position) if one.span is not None and one.text else -1
        if one.span is not None and at >= 0:
            pieces += [text[position:at], [one.span.start, one.span.end]]
            position = at + len(one.text)
    return [*pieces, text[position:]] if pieces else text
