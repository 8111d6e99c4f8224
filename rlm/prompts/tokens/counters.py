"""Look up token counters by name. None uses the network, and every report names its counter."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Protocol

from rlm.lazy_dataclass import dataclass
from rlm.prompts.errors import UnknownCounter
from rlm.prompts.tokens.estimate import VERSION, estimate_each, estimate_tokens

__all__ = ["Counter", "FunctionCounter", "Units", "counter_names", "get_counter"]


class Counter(Protocol):
    """Counts tokens. `count` accepts any string, is pure, never negative, and 0 for ""."""

    @property
    def name(self) -> str: ...

    @property
    def version(self) -> str: ...

    def count(self, text: str) -> int: ...

    def count_each(self, texts: Sequence[str]) -> list[int]:
        """Return `count` of every text. May be faster than one by one."""


@dataclass(frozen=True, slots=True)
class Units:
    """The finer unit that a counter adds up. `per` units make a token, and `up` rounds a rest up.

    `each` returns the units of texts. The units of joined texts are the sum of their units, so parts
    measured alone add up exactly to the whole.
    """

    per: int
    up: bool
    each: Callable[[Sequence[str]], list[int]]


@dataclass(frozen=True, slots=True)
class FunctionCounter:
    """A counter made of a pure function, with an optional faster function for many texts."""

    name: str
    version: str
    function: Callable[[str], int]
    each: Callable[[Sequence[str]], list[int]] | None = None
    units: Units | None = None

    def count(self, text: str) -> int:
        return self.function(text)

    def count_each(self, texts: Sequence[str]) -> list[int]:
        return self.each(texts) if self.each else [self.function(text) for text in texts]


def _quarter_characters(text: str) -> int:
    return -(-len(text) // 4)


def _bytes(text: str) -> int:
    return len(text) if text.isascii() else len(text.encode("utf-8", "surrogatepass"))


def _quarter_bytes(text: str) -> int:
    return _bytes(text) // 4


def _lengths(texts: Sequence[str]) -> list[int]:
    return list(map(len, texts))


def _byte_lengths(texts: Sequence[str]) -> list[int]:
    return list(map(_bytes, texts))


_COUNTERS: dict[str, Counter] = {
    counter.name: counter
    for counter in (
        FunctionCounter("estimate", VERSION, estimate_tokens, estimate_each),
        FunctionCounter("chars", "1", len, _lengths),
        FunctionCounter("chars4_ceil", "1", _quarter_characters, units=Units(4, True, _lengths)),
        FunctionCounter("bytes4_floor", "1", _quarter_bytes, units=Units(4, False, _byte_lengths)),
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
