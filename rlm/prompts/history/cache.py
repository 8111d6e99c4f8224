"""Cache summaries, so that none is requested twice."""

from __future__ import annotations

from hashlib import sha256
from typing import Protocol

__all__ = ["SummaryCache", "key_of"]


class SummaryCache(Protocol):
    """Maps the hash of a prompt to its summary. A `dict[str, str]` works."""

    def get(self, key: str, /) -> str | None: ...

    def __setitem__(self, key: str, summary: str, /) -> None: ...


def key_of(prompt: str) -> str:
    """Return the cache key of a prompt. The prompt holds the chunk and the summary so far."""
    return sha256(prompt.encode("utf-8", "surrogatepass")).hexdigest()
