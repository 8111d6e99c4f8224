"""Join sections into messages, and find the borders after which caching pays."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from itertools import groupby
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.prompts.assembly.section import MessageRole, Stability, stability_rank

__all__ = ["JOINER", "PromptMessage", "RenderedSection", "cache_borders", "messages_of", "prefix_hash"]

JOINER = "\n\n"
"""Separates sections, and messages where a prompt is sent as one text."""

_TURN = stability_rank("turn")
_VOLATILE = stability_rank("volatile")


@dataclass(frozen=True, slots=True)
class RenderedSection:
    """A section as rendered. `text` is "" if nothing of it is in the prompt.

    `tokens` is the sum of its items, separators and frame, each measured alone.
    """

    id: str
    role: MessageRole
    text: str
    tokens: int
    stability: Stability

    @property
    def name(self) -> str:
        """Return the section's id."""
        return self.id

    @property
    def content(self) -> str:
        """Return the section's text."""
        return self.text

    def to_json(self) -> dict[str, Any]:
        """Return name, content and tokens."""
        return {"name": self.id, "content": self.text, "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class PromptMessage:
    """One chat message. `stable`: this message and all before it stay the same from turn to turn."""

    role: MessageRole
    content: str
    stable: bool


def messages_of(sections: Sequence[RenderedSection]) -> tuple[PromptMessage, ...]:
    """Return one message for each run of consecutive sections of one role."""
    messages = []
    stable = True
    for role, stretch in groupby((part for part in sections if part.text), key=lambda part: part.role):
        parts = list(stretch)
        stable = stable and all(stability_rank(part.stability) < _TURN for part in parts)
        messages.append(PromptMessage(role, JOINER.join(part.text for part in parts), stable))
    return tuple(messages)


def cache_borders(sections: Sequence[RenderedSection]) -> tuple[str, ...]:
    """Return the ids of the sections after which a less stable section follows.

    There are at most four, since there are four stabilities.
    """
    borders: list[str] = []
    reached = 0
    previous: RenderedSection | None = None
    for section in sections:
        if not section.text:
            continue
        rank = stability_rank(section.stability)
        if previous is not None and rank > reached:
            borders.append(previous.id)
        reached = max(reached, rank)
        previous = section
    if previous is not None and reached < _VOLATILE:
        borders.append(previous.id)
    return tuple(borders)


def prefix_hash(sections: Sequence[RenderedSection]) -> str:
    """Return the SHA-256 (hex) of the text before the first section that changes from turn to turn."""
    stable = []
    for section in sections:
        if section.text and stability_rank(section.stability) >= _TURN:
            break
        if section.text:
            stable.append(section.text)
    return hashlib.sha256(JOINER.join(stable).encode("utf-8", "surrogatepass")).hexdigest()
