"""What providers need of messages beyond their text, and how what they send is read."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlm.models.base import Message

__all__ = ["alternating", "cache_borders", "encodable", "field"]


def encodable(text: str) -> str:
    """`text` as UTF-8 can carry it: surrogate pairs joined, a lone surrogate replaced by U+FFFD."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError:
        return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
    return text


def cache_borders(messages: Sequence[Message], most: int) -> frozenset[int]:
    """Positions of the messages to mark as ends of a cached prefix, at most `most` of those that are
    stable and not empty: the first (runs share it) and the latest (the next round repeats them)."""
    stable = [index for index, message in enumerate(messages) if message.stable and message.content]
    if len(stable) <= most:
        return frozenset(stable)
    return frozenset((stable[0], *stable[len(stable) - most + 1 :]))


def alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """The messages with neighbours of one role made one: many servers' templates insist that roles take
    turns, while a run's own history keeps a correction apart from what it corrects."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            joined = f"{merged[-1].content}\n\n{message.content}"
            merged[-1] = Message(message.role, joined, message.stable)
        else:
            merged.append(message)
    return tuple(merged)


def field(record: object, name: str) -> Any:
    """A field of what a server sent; None where it isn't there, or where there is no record."""
    return record.get(name) if isinstance(record, dict) else None
