"""Where summaries are kept, so that none is made twice."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

__all__ = ["SummaryCache", "key_of"]


class SummaryCache(Protocol):
    """Summaries by a hash of what they were made from. A `dict[str, str]` will do."""

    def get(self, key: str, /) -> str | None: ...

    def __setitem__(self, key: str, summary: str, /) -> None: ...


def key_of(prompt: str) -> str:
    """The key of a summariser's answer: its prompt holds the chunk and all that was folded before it."""
    return sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
