"""Reads what providers say of a model's thinking: its tokens, and the pieces that they want back."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from rlm.models.base import TokenUsage
from rlm.models.http.reply_limits import MAX_COUNT
from rlm.models.http.wire_messages import field

__all__ = ["ReasoningDetails", "read_count", "read_name", "with_reasoning"]

_NAME_CHARS = 200
_MAX_DETAILS = 1_000
_JOINED = ("text", "summary", "data")
"""Fields of a detail that a stream sends in pieces."""


class ReasoningDetails:
    """Puts the `reasoning_details` of a stream together: OpenRouter sends each of them in pieces, with an
    index."""

    def __init__(self) -> None:
        self.items: list[dict[str, Any]] = []
        self._by_index: dict[tuple[Any, Any], dict[str, Any]] = {}

    def add(self, details: object) -> None:
        for detail in details if isinstance(details, list) else ():
            if not isinstance(detail, dict) or len(self.items) >= _MAX_DETAILS:
                continue
            index = (detail.get("index"), str(detail.get("type")))
            known = self._by_index.get(index) if isinstance(index[0], int) else None
            if known is None:
                self.items.append(dict(detail))
                if isinstance(index[0], int):
                    self._by_index[index] = self.items[-1]
                continue
            for name, value in detail.items():
                both = isinstance(value, str) and isinstance(known.get(name), str)
                if name in _JOINED and both:
                    known[name] += value
                elif value is not None:
                    known[name] = value


def with_reasoning(usage: TokenUsage | None, body: dict[str, Any], text: str, thinking: str) -> TokenUsage:
    """Return the usage of a reply to `body`, with our own estimate of what the server does not count. A usage
    without any token counts nothing. An empty `body` leaves it at that."""
    if usage is not None and body and not usage.input_tokens and not usage.output_tokens:
        usage = None
    if usage is not None and (usage.reasoning_tokens or not thinking):
        return usage
    from rlm.prompts.tokens.counters import get_counter

    count = get_counter("estimate").count
    thought = count(thinking)
    if usage is None:
        told = [message["content"] for message in body["messages"]] + [body.get("system")]
        prompt = sum(count(_read_content(content)) for content in told)
        return TokenUsage(prompt, count(text) + thought, reasoning_tokens=thought)
    return replace(usage, reasoning_tokens=min(thought, usage.output_tokens))


def read_count(count: object) -> int:
    """Return `count`, or 0 where a server sends nothing or something else."""
    return min(count, MAX_COUNT) if isinstance(count, int) and count > 0 else 0


def read_name(name: object) -> str:
    """Return an id or a model's name, or "" where a server sends something else."""
    return name[:_NAME_CHARS] if isinstance(name, str) else ""


def _read_content(content: object) -> str:
    parts = content if isinstance(content, list) else ()
    return content if isinstance(content, str) else "".join(field(part, "text") or "" for part in parts)
