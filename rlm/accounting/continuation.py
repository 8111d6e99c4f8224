"""Follows up a reply that the output limit cut: asks for the rest, or once more with more room.

A reply that is cut was paid for. What there is of it is kept, and the model writes on. A reply that is all
thinking left no room for its text, so it is asked for again with more room and less effort.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from rlm.models.base import Message, Model, Reply, Request
from rlm.prompts.templates import table

__all__ = ["MAX_FOLLOW_UPS", "FollowUp", "follow_up"]

MAX_FOLLOW_UPS = 2
"""Calls that one reply may take besides the first."""

_MAX_OVERLAP, _MIN_OVERLAP = 400, 12
"""Characters that a model may repeat of its own reply before it writes on."""
_SAME_START = 40
_TAIL, _PERIOD, _REPEATS = 4_000, 120, 6
"""A reply is a runaway if its last characters occur so often in its tail: it would be cut again and again."""


@dataclass(frozen=True, slots=True)
class FollowUp:
    """The request to send, and whether its reply continues the one before or replaces it."""

    request: Request
    continues: bool

    def complete(self, before: Reply, after: Reply) -> Reply:
        """Return the two replies as one, with the usage of both. An empty one adds nothing."""
        usage = before.usage + after.usage
        if not after.text.strip() and before.text:
            return replace(before, usage=usage)
        if not self.continues:
            return replace(after, usage=usage)
        return replace(
            after,
            text=_join(before.text, after.text),
            usage=usage,
            thinking="\n".join(part for part in (before.thinking, after.thinking) if part),
            # What came after the cut belongs to another request than the next one repeats.
            carry=before.carry,
        )


def follow_up(model: Model, first: Request, reply: Reply) -> FollowUp | None:
    """Return what to ask after `reply`, the reply so far to the request `first`; None if it is complete, or
    if another call would not help."""
    if not reply.text.strip():
        thought = bool(reply.thinking.strip()) or reply.usage.reasoning_tokens > 0
        if not thought or reply.finish_reason not in ("length", "stop"):
            return None
        return FollowUp(replace(_with_room(model, first, reply), effort="low"), continues=False)
    if reply.finish_reason != "length" or _is_runaway(reply.text):
        return None
    if first.role == "root" and "```" in reply.text and not reply.text.count("```") % 2:
        return None  # its block is closed: what was cut is of no use, and the root is asked for less
    if first.schema is not None:
        # The rest of a JSON value has not the form that the provider would enforce.
        return FollowUp(_with_room(model, first, reply), continues=False)
    messages = (
        *first.messages,
        Message("assistant", reply.text, carry=reply.carry),
        Message("user", table("continuation.toml")["cut"]),
    )
    return FollowUp(replace(first, messages=messages), continues=True)


def _with_room(model: Model, request: Request, reply: Reply) -> Request:
    """Return the request with room for twice what the reply took, as far as the window allows."""
    taken = max(request.max_output_tokens, reply.usage.output_tokens)
    most = max(request.max_output_tokens, model.window.context // 2)
    return replace(request, max_output_tokens=min(request.max_output_tokens + taken, most))


def _is_runaway(text: str) -> bool:
    end = text[-_PERIOD:]
    return len(text) > _TAIL and text.count(end, len(text) - _TAIL) >= _REPEATS


def _join(before: str, after: str) -> str:
    """Return `before` and the `after` that continues it, without what the model repeats."""
    start = before.strip()[:_SAME_START]
    if len(start) == _SAME_START and after.strip().startswith(start):
        return after  # it has begun anew
    if before.count("```") % 2:
        head, newline, rest = after.lstrip("\n").partition("\n")
        if newline and head.startswith("```") and head.strip("`").strip():
            after = rest  # it has opened its block again
    for size in range(min(_MAX_OVERLAP, len(before), len(after)), _MIN_OVERLAP - 1, -1):
        if before.endswith(after[:size]):
            return before + after[size:]
    return before + after
