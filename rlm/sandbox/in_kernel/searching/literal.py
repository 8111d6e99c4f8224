"""Searches for a plain text in any case by its rarest byte.

RE2 finds a text in one case about as fast as ripgrep. In any case it compares every byte. So a large body is
searched for the rarest character of the text instead, once for each spelling of it. Then the text around each
such place is compared.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import lru_cache
from types import ModuleType
from typing import Any

from ...text.body import Body

__all__ = ["Literal", "LiteralScan", "literal_of", "sample_of"]

_CASED_LIMIT = 0x1F000
"""Every letter with two cases is below this code point."""
_SAMPLES = 16
_SAMPLE = 4_096
_RARE = 1_500
"""Most occurrences of the chosen bytes in the sample (2.3 %). Beyond that, RE2's own pass is faster."""
_FEW = 8
"""Most places in the sample that need a comparison."""
_TRIED = 4


@dataclass(frozen=True, slots=True)
class Literal:
    """A plain text. `spellings` holds the ways to write each character in UTF-8, the usual one first."""

    spellings: tuple[tuple[bytes, ...], ...]

    @property
    def usual(self) -> bytes:
        """Return the text itself, in lower case if case does not matter."""
        return b"".join(ways[0] for ways in self.spellings)

    @property
    def folded(self) -> bool:
        """Return whether any character has several spellings."""
        return any(len(ways) > 1 for ways in self.spellings)

    @property
    def longest(self) -> int:
        """Return the most bytes that a match may have."""
        return sum(max(map(len, ways)) for ways in self.spellings)

    def overlaps_itself(self) -> bool:
        """Return whether one match may begin within another."""
        usual = self.usual
        return any(usual.startswith(usual[at:]) for at in range(1, len(usual)))


def literal_of(codes: Sequence[int], flags: int, *, ascii_body: bool) -> Literal | None:
    """Return the literal for these characters under the flags of `re`. Return None for no characters, or if
    one is a lone surrogate."""
    if not codes or any(0xD800 <= code < 0xE000 for code in codes):
        return None
    if not flags & re.IGNORECASE:
        return Literal(tuple((chr(code).encode(),) for code in codes))
    return Literal(tuple(_cases(chr(code), flags & re.ASCII, ascii_body) for code in codes))


def sample_of(body: Body) -> bytes:
    """Return 64 KB from all over the body, or all of a smaller body."""
    raw, size = body.raw, body.bytes
    if size <= _SAMPLES * _SAMPLE:
        return raw[:size]
    return b"".join(raw[at : at + _SAMPLE] for at in range(0, size - _SAMPLE, size // _SAMPLES))


class LiteralScan:
    """Finds one literal in one body by its rarest character. `sample` is text of the body. `window` is in
    bytes."""

    __slots__ = ("_body", "_buffer", "_lead", "_literal", "_number", "_probes", "_raw", "_window", "pays")

    def __init__(self, literal: Literal, body: Body, sample: bytes, engine: ModuleType, window: int) -> None:
        self._literal = literal
        self._body = body
        self._raw = body.raw
        self._buffer = body.buffer
        self._window = window
        spellings = literal.spellings
        rate = lru_cache(None)(lambda byte: sample.count(bytes((byte,))))
        rates = [sum(min(map(rate, way)) for way in ways) for ways in spellings]
        self.pays = False
        """Whether this is faster than RE2's own search."""
        for self._number in heapq.nsmallest(_TRIED, range(len(rates)), key=rates.__getitem__):
            rest = "".join(map(_either, spellings[self._number + 1 :]))
            self._probes = [_Probe.of(way, rest, rate, engine) for way in spellings[self._number]]
            places = sum(sum(1 for _ in probe.pattern.finditer(sample)) for probe in self._probes)
            if rates[self._number] <= _RARE and places <= _FEW:
                self.pays = True
                break
        self._lead = _compiled("".join(map(_either, spellings[: self._number])), engine)

    def spans(self, at: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the matches from byte `at` on, in order, none within another."""
        for low in range(at, self._body.bytes, self._window):
            high = low + self._window
            for start, end in heapq.merge(*(self._found(probe, low, high) for probe in self._probes)):
                if start >= at:
                    yield start, end
                    at = end
            self._body.passed(self._window)

    def _found(self, probe: _Probe, low: int, high: int) -> Iterator[tuple[int, int]]:
        """Yield the matches that begin from byte `low` up to `high` and hold the probe's spelling."""
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
        """Return where the match with its chosen character at byte `place` begins, or None."""
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
    """One spelling of the chosen character.

    RE2 searches for its rarest byte and for all of the text after it. `before` holds the bytes of the
    spelling before that byte.
    """

    before: bytes
    pattern: Any

    @classmethod
    def of(cls, way: bytes, rest: str, rate: Callable[[int], int], engine: ModuleType) -> _Probe:
        """Return the probe for one spelling. `rate` returns how often a byte occurs."""
        at = min(range(len(way)), key=lambda place: rate(way[place]))
        # Without the group, RE2 would jump to the rest too.
        return cls(way[:at], _compiled(_escaped(way[at:]) + (f"(?:{rest}){{1}}" if rest else ""), engine))


def _compiled(source: str, engine: ModuleType) -> Any:
    """Return an RE2 pattern of bytes. In RE2's Latin-1, a character is one byte."""
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
    """Return the ways to write a character if case does not matter, as `re` itself compares it."""
    same = re.compile(re.escape(char), re.IGNORECASE | flags)
    alike = {char, *same.findall(_cased(ascii_body))}
    # Lower-case ASCII letters first, then any stable order.
    ordered = sorted(alike, key=lambda one: (not one.isascii(), one.isascii() and one != one.lower(), one))
    return tuple(one.encode() for one in ordered)


@lru_cache(maxsize=2)
def _cased(ascii_body: bool) -> str:
    every = map(chr, range(0x80 if ascii_body else _CASED_LIMIT))
    return "".join(char for char in every if char.lower() != char or char.upper() != char)
