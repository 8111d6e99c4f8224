"""Define one message of a chat, its rendering, and the groups that must stay together."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Message", "Role", "label", "render", "units"]

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """A chat message. `system` messages are rules and are never summarized.

    `tool_call_id` is set on the message that makes a call and on the `tool` message that answers it.
    `created_at` is rendered unchanged. Summaries cite a message by its `id`, or without one by its position,
    counted from 1 (`m12`).
    """

    role: Role
    content: str
    author: str | None = None
    created_at: str | None = None
    tool_call_id: str | None = None
    id: str | None = None


def label(message: Message, place: int) -> str:
    """Return the name by which a summary cites the message. `place` counts from 0."""
    return message.id or f"m{place + 1}"


def render(message: Message, name: str | None = None) -> str:
    """Return `user (Ann, 2026-05-01): …`, preceded by `[name] ` if a name is given."""
    details = ", ".join(filter(None, (message.author, message.created_at)))
    mark = f"[{name}] " if name else ""
    return f"{mark}{message.role}{f' ({details})' if details else ''}: {message.content}"


def units(messages: Sequence[Message]) -> list[range]:
    """Return consecutive ranges of message indexes that must stay together.

    A tool result stays with the call it answers and with the messages in between.
    """
    calls: dict[str, int] = {}
    starts = list(range(len(messages)))  # the first message that each one must stay with
    for place, message in enumerate(messages):
        if message.role != "tool":
            if message.tool_call_id:
                calls[message.tool_call_id] = place
        elif place:
            # Some servers reuse ids: a result answers the nearest call before it.
            starts[place] = calls.get(message.tool_call_id or "", place - 1)
    groups: list[range] = []
    for place, start in enumerate(starts):
        while groups and groups[-1].stop > start:
            start = min(start, groups.pop().start)  # noqa: PLW2901
        groups.append(range(start, place + 1))
    return groups
