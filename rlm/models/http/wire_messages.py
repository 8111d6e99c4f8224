"""Prepare messages for providers, and read fields of their replies."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from rlm.models.base import Message

__all__ = ["alternating", "cache_borders", "field"]


def cache_borders(messages: Sequence[Message], maximum: int) -> frozenset[int]:
    """Return the positions of messages that end a cached prefix: at most `maximum` of the stable ones. These
    are the first, which runs share, and the latest, which the next round repeats."""
    stable = [index for index, message in enumerate(messages) if message.stable and message.content]
    if len(stable) <= maximum:
        return frozenset(stable)
    return frozenset((stable[0], *stable[len(stable) - maximum + 1 :]))


def alternating(messages: Sequence[Message]) -> tuple[Message, ...]:
    """Merge neighbouring messages of one role. Many servers' templates require roles to alternate, while a
    run's history keeps a correction apart from the reply."""
    merged: list[Message] = []
    for message in messages:
        if merged and merged[-1].role == message.role:
            joined = f"{merged[-1].content}\n\n{message.content}"
            images = (*merged[-1].images, *message.images)
            merged[-1] = replace(merged[-1], content=joined, stable=message.stable, images=images)
        else:
            merged.append(message)
    return tuple(merged)


def field(record: object, name: str) -> Any:
    """Return a field of a server's JSON object, or None where the field or the object is missing."""
    return record.get(name) if isinstance(record, dict) else None
