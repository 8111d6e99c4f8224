"""One message of a chat, how it is written out, and which messages can't be parted."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Literal

__all__ = ["Message", "Role", "label", "render", "units"]

Role = Literal["system", "user", "assistant", "tool"]


@dataclass(frozen=True, slots=True)
class Message:
    """A message. `system` messages are rules: they are never summarised.

    `tool_call_id` stands on the message that makes a call and on the `tool` message that answers it.
    `created_at` is printed as it is given. `id` is the name summaries cite it by; without one they cite its
    place, counted from 1 (`m12`).
    """

    role: Role
    content: str
    author: str | None = None
    created_at: str | None = None
    tool_call_id: str | None = None
    id: str | None = None


def label(message: Message, place: int) -> str:
    """What a summary cites the message by; `place` counts from 0."""
    return message.id or f"m{place + 1}"


def render(message: Message, name: str | None = None) -> str:
    """`user (Ann, 2026-05-01): …`, after `[name] ` where there is one."""
    details = ", ".join(filter(None, (message.author, message.created_at)))
    mark = f"[{name}] " if name else ""
    return f"{mark}{message.role}{f' ({details})' if details else ''}: {message.content}"


def units(messages: Sequence[Message]) -> list[range]:
    """The places of the messages, in order, in groups that stay together: a tool's result stands with the
    call it answers, and with whatever was said in between."""
    calls: dict[str, int] = {}
    starts = list(range(len(messages)))  # the first message that each one can't be parted from
    for place, message in enumerate(messages):
        if message.role != "tool":
            if message.tool_call_id:
                calls[message.tool_call_id] = place
        elif place:
            # Some servers use an id again: the nearest call before the result is the one it answers.
            starts[place] = calls.get(message.tool_call_id or "", place - 1)
    groups: list[range] = []
    for place, start in enumerate(starts):
        while groups and groups[-1].stop > start:
            start = min(start, groups.pop().start)  # noqa: PLW2901
        groups.append(range(start, place + 1))
    return groups
