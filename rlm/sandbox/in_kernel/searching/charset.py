"""Spells sets of characters for RE2. A set is sorted, disjoint, inclusive ranges of code points."""

from __future__ import annotations

import re
from collections.abc import Iterable
from functools import lru_cache

__all__ = ["ASCII_LIMIT", "UNICODE_LIMIT", "CharSet", "category", "complement", "holds", "spell", "union"]

CharSet = tuple[tuple[int, int], ...]

ASCII_LIMIT = 0x80
UNICODE_LIMIT = 0x110000


def union(ranges: Iterable[tuple[int, int]]) -> CharSet:
    """Return one set of all the ranges. They may overlap, in any order."""
    merged: list[tuple[int, int]] = []
    for low, high in sorted(ranges):
        if merged and low <= merged[-1][1] + 1:
            merged[-1] = (merged[-1][0], max(merged[-1][1], high))
        else:
            merged.append((low, high))
    return tuple(merged)


def complement(chars: CharSet) -> CharSet:
    """Return every code point that is not in `chars`."""
    gaps = []
    at = 0
    for low, high in chars:
        if at < low:
            gaps.append((at, low - 1))
        at = high + 1
    if at < UNICODE_LIMIT:
        gaps.append((at, UNICODE_LIMIT - 1))
    return tuple(gaps)


def holds(chars: CharSet, code: int) -> bool:
    """Return whether `code` is in `chars`."""
    return any(low <= code <= high for low, high in chars)


@lru_cache(maxsize=16)
def category(escape: str, limit: int, flags: int) -> CharSet:
    """Return the characters below `limit` that `re` matches with `escape` (\\d, \\s or \\w)."""
    every = "".join(map(chr, range(limit)))
    return tuple((found.start(), found.end() - 1) for found in re.finditer(f"{escape}+", every, flags))


def spell(chars: CharSet, *, negated: bool = False) -> str:
    """Return the set as an RE2 character class."""
    if not chars:
        return spell(((0, UNICODE_LIMIT - 1),), negated=not negated)
    inside = "".join(
        f"\\x{{{low:x}}}" if low == high else f"\\x{{{low:x}}}-\\x{{{high:x}}}" for low, high in chars
    )
    return f"[{'^' if negated else ''}{inside}]"
