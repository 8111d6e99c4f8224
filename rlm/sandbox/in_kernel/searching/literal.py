"""Where a plain text stands in a large body, upper and lower case being the same or not.

A pass that looks for one byte is many times faster than one that runs an automaton. So the text is looked
for by the character of it that is rarest in this body: RE2 jumps from one such place to the next, and what
stands around it is compared only there. A letter with two cases takes two passes. A text of common letters
that can be written in one way only is the C library's to find.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from ..body.body import Body
from . import memmem
from .byte_rates import ByteRates
from .case_folding import CaseFolder
from .literal_count import LiteralCount

__all__ = ["Literal", "LiteralScan", "literal_of"]

_MAX_PLANS = 8
_MAX_PLACES = 1_024
_FOLLOWED = 8
_CASED_LIMIT = 0x1F000
"""No letter with two cases lies beyond."""

# What a pass over a body costs, in passes that look for a byte which is not there (some 30 ms/GB). Measured.
_A_FIND = 0.34  # for each place where the byte stands, in one KB
_A_HIT = 90.0  # for each match, in one KB
_A_FOLDED_HIT = 240.0  # … in any case
_FOLDED = 10.0  # RE2's own pass for a text in any case that begins with an ASCII letter
_FOLDED_WIDE = 36.0  # … with another letter
_MEMMEM = 3.0  # the C library's pass
_SHORT = 3
_SHORT_MEMMEM = 30.0  # … for no more than so many bytes
_A_PLACE = 24.0  # and for each match, in one KB


@dataclass(frozen=True, slots=True)
class Literal:
    """A plain text: for each of its characters the ways to write it in UTF-8, the usual one first."""

    spellings: tuple[tuple[bytes, ...], ...]

    @property
    def usual(self) -> bytes:
        """The text itself, in lower case where case does not matter."""
        return b"".join(ways[0] for ways in self.spellings)

    @property
    def folded(self) -> bool:
        """Whether any character has more ways than one."""
        return any(len(ways) > 1 for ways in self.spellings)

    @property
    def longest(self) -> int:
        """The most bytes that a match may have."""
        return sum(max(map(len, ways)) for ways in self.spellings)

    def overlaps_itself(self) -> bool:
        """Whether one match may begin within another."""
        usual = self.usual
        return any(usual.startswith(usual[at:]) for at in range(1, len(usual)))


def literal_of(codes: Sequence[int], flags: int, *, ascii_body: bool) -> Literal | None:
    """The literal for these characters under the flags of `re`; None when there are none, or one is a lone
    surrogate."""
    if not codes or any(0xD800 <= code < 0xE000 for code in codes):
        return None
    if not flags & re.IGNORECASE:
        return Literal(tuple((chr(code).encode(),) for code in codes))
    return Literal(tuple(_cases(chr(code), flags & re.ASCII, ascii_body) for code in codes))


class LiteralScan:
    """Finds one literal in one body. `window` is in bytes."""

    __slots__ = (
        "_body",
        "_buffer",
        "_count",
        "_hits",
        "_lead",
        "_literal",
        "_number",
        "_passes",
        "_probes",
        "_raw",
        "_window",
    )

    def __init__(
        self, literal: Literal, body: Body, rates: ByteRates, engine: ModuleType, window: int
    ) -> None:
        self._literal = literal
        self._body = body
        self._raw = body.raw
        self._buffer = body.buffer
        self._window = window
        self._count = LiteralCount(literal.spellings, body, rates)
        self._hits = self._count.rate(rates.sample)
        self._passes, self._number = min(self._plans(literal.spellings, rates))
        before, after = literal.spellings[: self._number], literal.spellings[self._number + 1 :]
        self._lead = _compiled("".join(map(_either, before)), engine)
        rest = "".join(map(_either, after))
        self._probes = [_Probe.of(way, rest, rates.rates, engine) for way in literal.spellings[self._number]]

    @property
    def pays(self) -> bool:
        """Whether this is faster than the pattern itself in RE2."""
        return not self._literal.folded or self._passes < self._own_passes()

    def _plans(self, spellings: Sequence[tuple[bytes, ...]], rates: ByteRates) -> Iterator[tuple[float, int]]:
        """What it costs to look for the text by each of its characters. Each place where that and what comes
        after it stands is looked at here."""
        plain = [
            (sum(1 + _A_FIND * min(rates.rates[byte] for byte in way) for way in ways), number)
            for number, ways in enumerate(spellings)
        ]
        for passes, number in heapq.nsmallest(_MAX_PLANS, plain):
            places = CaseFolder(spellings[number : number + _FOLLOWED], rates.sample).count(rates.sample)
            yield passes + self._a_hit * 1024 / max(1, len(rates.sample)) * places, number

    @property
    def _by_memmem(self) -> float:
        """What it costs when the C library looks for the whole text."""
        if self._literal.folded or not memmem.AVAILABLE:
            return float("inf")
        return (_MEMMEM if len(self._literal.usual) > _SHORT else _SHORT_MEMMEM) + _A_PLACE * self._hits

    @property
    def _by_matches(self) -> float:
        """What it costs when RE2 does."""
        return min(self._passes, self._own_passes()) + self._a_hit * self._hits

    @property
    def _a_hit(self) -> float:
        return _A_FOLDED_HIT if self._literal.folded else _A_HIT

    def spans(self) -> Iterator[tuple[int, int]]:
        """Matches in bytes, in order, none within another."""
        if self._by_memmem < self._by_matches:
            yield from self._exact()
            return
        free = 0
        for low in range(0, self._body.bytes, self._window):
            high = low + self._window
            for start, end in heapq.merge(*(self._found(probe, low, high) for probe in self._probes)):
                if start >= free:
                    yield start, end
                    free = end
            self._body.passed(self._window)

    def count(self) -> int | None:
        """How many there are; None when the pattern in RE2 is the better way."""
        one_by_one = min(self._by_memmem, self._by_matches)
        if self._literal.overlaps_itself() or one_by_one < self._count.passes:
            return sum(1 for _ in self.spans()) if self.pays else None
        return self._count.count()

    def _exact(self) -> Iterator[tuple[int, int]]:
        buffer, size, data = self._buffer, self._body.bytes, self._literal.usual
        at = most = 0
        while at < size:
            # Whoever wants only the first few need not wait for more.
            most = min(_MAX_PLACES, 4 * most + 1)
            stop = min(size, at + self._window + len(data) - 1)
            found = memmem.places(buffer, data, at, stop, most)
            for place in found:
                yield place, place + len(data)
            go_on = found[-1] + len(data) if found else at
            if len(found) < most:
                # The window holds no more.
                go_on = max(go_on, at + self._window)
            self._body.passed(min(size, go_on) - at)
            at = go_on

    def _own_passes(self) -> float:
        return _FOLDED if self._literal.spellings[0][0].isascii() else _FOLDED_WIDE

    def _found(self, probe: _Probe, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Matches that begin from byte `low` up to `high` and hold the probe's spelling."""
        raw, buffer, search = self._raw, self._buffer, probe.pattern.search
        at, stop = low, min(self._body.bytes, high + self._literal.longest)
        while match := search(buffer, at, stop):
            place, end = match.span()
            at = place + 1
            place -= len(probe.before)
            if place < low or raw[place : place + len(probe.before)] != probe.before:
                continue
            start = self._start(place)
            if start is None or start < low:
                continue
            if start >= high:
                return
            yield start, end

    def _start(self, place: int) -> int | None:
        """Where the match begins whose chosen character stands at byte `place`, if it is one."""
        raw, start = self._raw, place
        for _ in range(self._number):
            start -= 1
            while start > 0 and raw[start] & 0xC0 == 0x80:
                start -= 1
        if start < 0:
            return None
        return start if start == place or self._lead.fullmatch(self._buffer, start, place) else None


@dataclass(frozen=True, slots=True)
class _Probe:
    """One spelling of the chosen character: RE2 looks for its rarest byte, what comes after that, and the
    rest of the text; `before` are the bytes of the spelling that stand before."""

    before: bytes
    pattern: Any

    @classmethod
    def of(cls, way: bytes, rest: str, rates: Sequence[float], engine: ModuleType) -> _Probe:
        at = min(range(len(way)), key=lambda place: rates[way[place]])
        # The group keeps RE2 from taking the rest for a part of the text that it jumps to.
        return cls(way[:at], _compiled(_escaped(way[at:]) + (f"(?:{rest}){{1}}" if rest else ""), engine))


def _compiled(source: str, engine: ModuleType) -> Any:
    """An RE2 pattern of bytes: RE2's Latin-1 is one byte a character."""
    options = engine.Options()
    options.log_errors = False
    options.encoding = engine.Options.Encoding.LATIN1
    return engine.compile(source.encode("ascii"), options)


def _escaped(data: bytes) -> str:
    return "".join(f"\\x{byte:02x}" for byte in data)


def _either(ways: tuple[bytes, ...]) -> str:
    return _escaped(ways[0]) if len(ways) == 1 else f"(?:{'|'.join(map(_escaped, ways))})"


@lru_cache(maxsize=256)
def _cases(char: str, flags: int, ascii_body: bool) -> tuple[bytes, ...]:
    """The ways to write a character when case does not matter: `re` itself is asked."""
    same = re.compile(re.escape(char), re.IGNORECASE | flags)
    alike = {char, *same.findall(_cased(ascii_body))}
    # ASCII small letters first: `bytes.lower` makes them. Else any order, as long as it is always the same.
    ordered = sorted(alike, key=lambda one: (not one.isascii(), one.isascii() and one != one.lower(), one))
    return tuple(one.encode() for one in ordered)


@lru_cache(maxsize=2)
def _cased(ascii_body: bool) -> str:
    every = map(chr, range(0x80 if ascii_body else _CASED_LIMIT))
    return "".join(char for char in every if char.lower() != char or char.upper() != char)
