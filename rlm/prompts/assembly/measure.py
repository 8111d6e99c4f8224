"""Measuring texts in what a counter adds up, and turning that into its tokens."""

from __future__ import annotations

from collections.abc import Sequence

from rlm.prompts.assembly.policy import Summarize
from rlm.prompts.tokens.counters import Counter, Units

__all__ = ["Measure"]


class Measure:
    """A counter that remembers. One lives for one assembly; summaries are remembered with it.

    Sizes are in units: tokens, or the finer thing that a counter adds up (`Units`).
    """

    def __init__(self, counter: Counter) -> None:
        self._counter = counter
        self._units: Units | None = getattr(counter, "units", None)
        self._sizes: dict[str, int] = {}
        self._summaries: dict[tuple[str, int], str] = {}

    def __call__(self, text: str) -> int:
        size = self._sizes.get(text)
        if size is None:
            size = self._sizes[text] = self.once(text)
        return size

    def once(self, text: str) -> int:
        """The size, without remembering it: for texts that are tried and thrown away."""
        return self.each((text,))[0] if self._units else self._counter.count(text)

    def each(self, texts: Sequence[str]) -> list[int]:
        """The sizes of all of these, which is faster than one by one."""
        return self._units.each(texts) if self._units else self._counter.count_each(texts)

    def tokens(self, size: int) -> int:
        """The tokens that a text of this size counts as."""
        if self._units is None:
            return size
        return -(-size // self._units.per) if self._units.up else size // self._units.per

    def tokens_each(self, sizes: Sequence[int]) -> Sequence[int]:
        """`tokens` of all of these."""
        return sizes if self._units is None else list(map(self.tokens, sizes))

    def bound(self, tokens: int) -> int:
        """The largest size that still counts as `tokens`."""
        if self._units is None:
            return tokens
        return tokens * self._units.per + (0 if self._units.up else self._units.per - 1)

    def count(self, text: str) -> int:
        """Tokens of a whole text."""
        return self._counter.count(text)

    def summary(self, step: Summarize, text: str, tokens: int) -> str:
        """The summary of `text`, asked for once."""
        if (text, tokens) not in self._summaries:
            self._summaries[text, tokens] = step.summarizer(text, tokens)
        return self._summaries[text, tokens]
