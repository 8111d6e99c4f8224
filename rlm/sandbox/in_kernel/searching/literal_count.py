"""How often a plain text stands in a large body: counted by the C library of Python, no match being seen.

Many a text is written in letters that stand together in parts of a body only (a language, a table). So the
bytes between are skipped: whatever does not hold a byte that every match holds is never compared.
"""

from __future__ import annotations

from collections.abc import Sequence

from ..body.body import Body
from .byte_rates import ByteRates
from .case_folding import CaseFolder

__all__ = ["LiteralCount"]

_SHORT = 28_000
_LONG = 64 << 10
"""Bytes that are counted in at once. A short text is found faster in what CPython takes for a short one; both
stay in the processor's cache."""
_MANY = 12
_NARROW = 512
_LINE = 1 << 20

# What it costs, in passes that look for a byte which is not there (some 30 ms/GB). Measured.
_COUNTING = 18.0
_TABLE = 25.0
_REPLACING = 28.0
_WINDOW = 33.0  # for each stretch that has to be looked at, in one KB
_FOLDED_WINDOW = 80.0


class LiteralCount:
    """Counts one text that does not overlap itself. `spellings` are the ways to write each of its characters,
    the usual one first."""

    __slots__ = ("_body", "_case", "_folded", "_keys", "_sparse", "_usual", "passes")

    def __init__(self, spellings: Sequence[tuple[bytes, ...]], body: Body, rates: ByteRates) -> None:
        self._body = body
        self._usual = b"".join(ways[0] for ways in spellings)
        self._folded = any(len(ways) > 1 for ways in spellings)
        self._case = CaseFolder(spellings, rates.sample)
        keys = min(
            (_held_by_each(ways, rates.rates) for ways in dict.fromkeys(spellings)),
            key=lambda keys: (rates.share(keys), len(keys)),
        )
        share = rates.share(keys)
        self._keys = [bytes((key,)) for key in keys]
        dense = _COUNTING
        if self._folded:
            tables, replaced, texts = self._case.passes
            dense = _COUNTING * texts + _TABLE * tables + _REPLACING * replaced
        window = _FOLDED_WINDOW if self._folded else _WINDOW
        sparse = len(keys) + share * (window * 1024 / ByteRates.PIECE + 2 * dense)
        self._sparse = sparse < dense
        self.passes = min(dense, sparse)
        """What `count` costs, in passes over the body that look for a byte which is not there."""

    def rate(self, sample: bytes) -> float:
        """How many matches a KB may hold, by a sample of the body."""
        return 1024 / max(1, len(sample)) * self._case.count(sample)

    def count(self) -> int | None:
        """How often it stands there; None for lines too long to hold."""
        if not self._folded:
            return self._exactly()
        return None if b"\n" in self._usual else self._in_one_case()

    def _exactly(self) -> int:
        wanted, raw, body = self._usual, self._body.raw, self._body
        step = _SHORT if len(wanted) < _MANY and not self._sparse else _LONG
        more = len(wanted) - 1
        [key] = self._keys
        place = wanted.index(key)
        found = 0
        for at in range(0, body.bytes, step):
            piece = raw[at : at + step + more]
            found += self._around(piece, key, place, step) if self._sparse else piece.count(wanted)
            body.passed(step)
        return found

    def _around(self, piece: bytes, key: bytes, place: int, step: int) -> int:
        """Matches that begin before `step`, of which each has `key` at its `place`."""
        wanted, more = self._usual, len(self._usual) - 1
        found, width = 0, _NARROW
        at = piece.find(key, place)
        while 0 <= at < step + place:
            low = at - place
            high = min(step, low + width)
            found += piece.count(wanted, low, high + more)
            at = piece.find(key, high + place)
            width = min(step, 2 * width) if at - high < width else max(_NARROW, width // 2)
        return found

    def _in_one_case(self) -> int | None:
        """Line by line, as letters may change their length."""
        raw, size, body = self._body.raw, self._body.bytes, self._body
        case = self._case
        found = at = 0
        while at < size:
            stop = at + _LONG
            if stop < size:
                stop = raw.find(b"\n", stop, stop + _LINE) + 1
                if not stop and size - at > _LINE:
                    return None
                stop = stop or size
            piece = raw[at:stop]
            found += self._in_lines(piece) if self._sparse else case.count(piece)
            body.passed(stop - at)
            at = stop
        return found

    def _in_lines(self, piece: bytes) -> int:
        places = [piece.find(key) for key in self._keys]
        found = high = 0
        width = _NARROW
        while any(place >= 0 for place in places):
            first = min(place for place in places if place >= 0)
            low = piece.rfind(b"\n", high, first) + 1 or high
            width = min(len(piece), 2 * width) if low - high < width else max(_NARROW, width // 2)
            high = piece.find(b"\n", first + width) + 1 or len(piece)
            found += self._case.count(piece[low:high])
            places = [
                piece.find(key, high) if 0 <= place < high else place
                for key, place in zip(self._keys, places, strict=True)
            ]
        return found


def _held_by_each(ways: tuple[bytes, ...], rates: Sequence[float]) -> list[int]:
    """Bytes, the rarest and as few as can be, of which each of these ways to write a character holds one."""
    common = set(ways[0]).intersection(*ways[1:])
    if common:
        return [min(common, key=lambda byte: rates[byte])]
    return sorted({min(way, key=lambda byte: rates[byte]) for way in ways})
