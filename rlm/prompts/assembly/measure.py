"""Measure texts in the units of a counter, and convert sizes to tokens."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.prompts.assembly.policy import Summarize
from rlm.prompts.tokens.counters import Counter

__all__ = ["Measure"]


class Measure:
    """A counter with a cache, made for one assembly. It also caches summaries.

    Sizes are in units: tokens, or the finer unit that a counter adds up (`Units`).
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._sizes: dict[str, int] = {}
        self._summaries: dict[tuple[str, int], str] = {}

    def __call__(self, text: str) -> int:
        size = self._sizes.get(text)
        if size is None:
            size = self._sizes[text] = self.once(text)
        return size

    def once(self, text: str) -> int:
        """Return the size without caching it, for texts that are tried and discarded."""
        return self._counter.size(text)

    def each(self, texts: Sequence[str]) -> list[int]:
        """Return the sizes of all texts. Faster than one by one."""
        return self._counter.sizes(texts)

    def tokens(self, size: int) -> int:
        """Convert a size to tokens."""
        return self._counter.tokens(size)

    def tokens_each(self, sizes: Sequence[int]) -> Sequence[int]:
        """Convert sizes to tokens."""
        return list(map(self.tokens, sizes))

    def bound(self, tokens: int) -> int:
        """Return the largest size that still counts as `tokens`."""
        return self._counter.room(tokens)

    def count(self, text: str) -> int:
        """Return the tokens of a whole text."""
        return self._counter.count(text)

    def summary(self, step: Summarize, text: str, tokens: int) -> str:
        """Return the summary of `text`. Asks the summarizer once for each text and size."""
        if (text, tokens) not in self._summaries:
            self._summaries[text, tokens] = step.summarizer(text, tokens)
        return self._summaries[text, tokens]
