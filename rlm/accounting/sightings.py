"""Keeps what children said that they saw on pages, to find there what an answer quotes from them."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm.sandbox.types import Span

__all__ = ["Sightings"]

_MAX_CHARS = 4_000_000
_WORD = re.compile(r"\w+")


class Sightings:
    """The replies of the children that looked at pages. Beyond 4 million characters, no more are kept."""

    def __init__(self) -> None:
        self._replies: dict[tuple[tuple[Span, ...], str], None] = {}
        self._chars = 0

    def note(self, pages: Sequence[Span], reply: str) -> None:
        """Note the reply of a child that saw these pages."""
        words = _words(reply)
        self._chars += len(words)
        if pages and self._chars <= _MAX_CHARS:
            self._replies[tuple(pages), words] = None

    def place_of(self, quote: str) -> Span | None:
        """Return the span of the pages on which a child read these words, or None. No text proves it."""
        wanted = _words(quote)
        if not wanted.strip():
            return None
        for pages, words in self._replies:
            if wanted in words:
                return Span(min(page.start for page in pages), max(page.end for page in pages))
        return None


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
