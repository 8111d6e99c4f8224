"""Look up token counters by name. None uses the network, and every report names its counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from rlm.prompts.errors import UnknownCounter
from rlm.prompts.tokens.estimate import VERSION, estimate_each, estimate_tokens

__all__ = ["Counter", "counter_names", "get_counter"]


@dataclass(frozen=True, slots=True)
class Counter:
    """A counter of tokens, made of a pure function that gives the size of a text, and 0 for "".

    `per` units of size make a token, and `up` rounds a rest up. A counter of characters or bytes has a finer
    unit than the token, in which the sizes of parts add up exactly to the size of the whole. `each` may give
    the sizes of many texts faster.
    """

    name: str
    version: str
    size: Callable[[str], int]
    each: Callable[[Sequence[str]], list[int]] | None = None
    per: int = 1
    up: bool = False

    def count(self, text: str) -> int:
        """Return the tokens of a text."""
        return self.tokens(self.size(text))

    def count_each(self, texts: Sequence[str]) -> list[int]:
        """Return `count` of every text."""
        return list(map(self.tokens, self.sizes(texts)))

    def sizes(self, texts: Sequence[str]) -> list[int]:
        """Return the size of every text."""
        return self.each(texts) if self.each else list(map(self.size, texts))

    def tokens(self, size: int) -> int:
        """Return the tokens of a size."""
        return -(-size // self.per) if self.up else size // self.per

    def room(self, tokens: int) -> int:
        """Return the largest size that still counts as `tokens`."""
        return tokens * self.per + (0 if self.up else self.per - 1)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


_COUNTERS = {
    counter.name: counter
    for counter in (
        Counter("estimate", VERSION, estimate_tokens, estimate_each),
        Counter("chars", "1", len),
        Counter("chars4_ceil", "1", len, per=4, up=True),
        Counter("bytes4_floor", "1", _bytes, per=4),
    )
}


def counter_names() -> tuple[str, ...]:
    """Return the names for `get_counter`."""
    return tuple(_COUNTERS)


def get_counter(name: str = "estimate") -> Counter:
    """Return the counter of that name.

    `estimate` is at or above o200k on real text (see its module). `chars` counts code points, `chars4_ceil`
    a quarter of them rounded up, `bytes4_floor` a quarter of the UTF-8 bytes rounded down. Raises
    UnknownCounter.
    """
    if name not in _COUNTERS:
        raise UnknownCounter(f"there is no token counter {name!r}: use one of {', '.join(_COUNTERS)}")
    return _COUNTERS[name]
