"""Finds the place of a quote in a body.

A verbatim place comes first. Otherwise a quote matches the same words with other white space, a word that is
hyphenated at a line's end, other quotation marks, other dashes, an ellipsis for three dots, ligatures for
letters: the changes of a print, a PDF or a model. Other words, letters or another order never match.

The search runs over the mapped bytes and decodes nothing. One pass finds all quotes without a verbatim place.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from functools import cached_property
from itertools import pairwise
from typing import Any

import re2

from rlm.sandbox import Body, Span, search_body

__all__ = ["MAX_QUOTE", "locate", "locate_all"]

MAX_QUOTE = 5_000
"""Characters. Longer quotes are not searched: a span serves better."""

_NEIGHBOURHOOD = 500
_WIDE = 20_000  # characters: a longer span is no hint where to look
_MAX_NEAR = 100
_WINDOW = 4 << 20
_REACH = 4_096  # bytes that the head of a quote may take in the body, with all its white space
_HEAD = 40
_MAX_WORK = 200_000  # quotes compared, 64 bytes of them: beyond that, those of stock phrases are given up
_MEMORY = 64 << 20

_SPACES = r"\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200b}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_SPACE = rf"[{_SPACES}\x{{feff}}]"
_UNSEEN = r"[\x{ad}\x{200b}\x{2060}\x{feff}]"
_WRAP = r"[ \t\x{a0}\x{3000}]*\r?\n[ \t\x{a0}\x{3000}]*"
_BREAK = rf"[-\x{{ad}}\x{{2010}}]{_WRAP}"
"""A hyphen at the end of a line, inside a word."""
_DASHES = "-‐‑‒–—―−"
_ALIKE = {char: alike for alike in ('"“”„‟«»″', "'’‘‚‛′`´", _DASHES) for char in alike}
_LONG = str.maketrans({"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬆ": "st", "…": "..."})
_SHORT = {
    "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ", "ffi": "ﬃ|fﬁ|ﬀi", "ffl": "ﬄ|fﬂ|ﬀl", "st": "ﬆ", "...": "…"
}  # fmt: skip
_UNIT = re.compile(r"\s+|ffi|ffl|ff|fi|fl|st|\.\.\.|.")
_EDGES = " \t\r\n…"
_EAST = ("\u2e80", "\U0003ffff")
"""The first and the last character of the scripts that are wrapped without a blank."""


def locate(quote: str, body: Body, near: Span | None = None) -> Span | None:
    """Return the place of `quote`, or None. A place at `near` wins, then one around it, then any."""
    return locate_all([quote], body, [] if near is None else [near])[0]


def locate_all(
    quotes: Sequence[str], body: Body, near: Sequence[Span] = (), *, window: int = _WINDOW
) -> list[Span | None]:
    """Return the place of each quote, or None. A place at one of `near` wins, then one around them, then the
    first verbatim one, then the first of any. `window` is in bytes."""
    patterns = {
        quote: _QuotePattern(text) if (text := _trim(quote)) else None for quote in dict.fromkeys(quotes)
    }
    found: dict[str, Span | None] = {}
    left: dict[str, _QuotePattern] = {}
    for quote, item in patterns.items():
        found[quote] = None if item is None else item.around(body, near[:_MAX_NEAR]) or item.verbatim(body)
        if item is not None and found[quote] is None:
            left[quote] = item
    if left:
        found.update(_search_folded(left, body, window))
    return [found[quote] for quote in quotes]


def _trim(quote: str) -> str | None:
    """Return the text to search for, or None if it is empty, too long, or not valid Unicode."""
    text = quote.strip().strip(_EDGES)
    lone = any("\ud800" <= char <= "\udfff" for char in text)
    return None if not text or lone or len(text) > MAX_QUOTE else text


class _QuotePattern:
    """A quote that is searched for."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._data = text.encode()
        self.work = 1 + len(self._data) // 64

    def around(self, body: Body, near: Sequence[Span]) -> Span | None:
        """Return the place at one of these spans, else the one close to one of them."""
        sound = [span for span in near if 0 <= span.start < span.end <= min(body.chars, span.start + _WIDE)]
        slack = max(_NEIGHBOURHOOD, len(self._text))
        wide = [Span(max(0, span.start - slack), min(body.chars, span.end + slack)) for span in sound]
        for start, end in [*sound, *wide]:
            low, high = body.byte_of(start), body.byte_of(end)
            at = body.raw.find(self._data, low, high)
            if at >= 0:
                return _span(body, at, at + len(self._data))
            if match := self._pattern.search(body.buffer, low, high):
                return _span(body, *match.span())
        return None

    def verbatim(self, body: Body) -> Span | None:
        """Return the first verbatim place in the body."""
        spans = search_body(body, re.escape(self._text), 1)
        return spans[0] if spans else None

    def at(self, body: Body, byte: int) -> Span | None:
        """Return the place that begins at this byte, if any."""
        match = self._pattern.match(body.buffer, byte, min(body.bytes, byte + 8 * len(self._data) + _REACH))
        return _span(body, *match.span()) if match else None

    @cached_property
    def head(self) -> str:
        """Return the beginning of the quote as a pattern."""
        return _pattern_of(_UNIT.findall(self._text.translate(_LONG))[:_HEAD])

    @cached_property
    def _pattern(self) -> Any:
        return _compile(_pattern_of(_UNIT.findall(self._text.translate(_LONG))))


def _search_folded(patterns: Mapping[str, _QuotePattern], body: Body, window: int) -> dict[str, Span]:
    """Find the first place of each quote, in one pass over the body for the heads of all of them."""
    left = dict(patterns)
    found: dict[str, Span] = {}
    heads = _heads(left)
    work = 0
    for low in range(0, body.bytes, window):
        at, high = low, low + window
        while match := heads.search(body.buffer, at, min(body.bytes, high + _REACH)):
            start = match.start()
            if start >= high:
                break
            at = start + 1
            work += sum(item.work for item in left.values())
            here = {quote: span for quote, item in left.items() if (span := item.at(body, start))}
            if here:
                found.update(here)
                left = {quote: item for quote, item in left.items() if quote not in here}
                if left:
                    heads = _heads(left)
            if not left or work > _MAX_WORK:
                return found
    return found


def _heads(patterns: Mapping[str, _QuotePattern]) -> Any:
    return _compile("|".join(dict.fromkeys(item.head for item in patterns.values())))


def _compile(source: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    return re2.compile(source, options)


def _span(body: Body, start: int, end: int) -> Span:
    return Span(body.char_of(start), body.char_of(end))


def _pattern_of(units: Sequence[str]) -> str:
    parts = []
    before = gap = ""
    for unit in units:
        if unit.isspace():
            gap = unit
            continue
        if gap and before:
            # The quote itself was wrapped, in a script that has no blanks.
            wrapped = "\n" in gap and _eastern(before) and _eastern(unit)
            parts.append(_SPACE + ("*" if wrapped else "+"))
        else:
            parts.append(_joint(before, unit))
        parts.append(_spellings(unit))
        before, gap = unit, ""
    return "".join(parts)


def _joint(before: str, after: str) -> str:
    """Return the pattern of what the body may have between two adjacent characters of a quote."""
    if not before:
        return ""
    if before in _DASHES or (_eastern(before) and _eastern(after)):
        return f"(?:{_WRAP})?"
    if before[-1].isalnum() and after[0].isalnum():
        return f"(?:{_UNSEEN}|{_BREAK})?"
    return ""


def _spellings(unit: str) -> str:
    """Return the pattern of every spelling of a unit in the body."""
    # A unit is one character, or a group such as `ffi` that print may set as a ligature. The body may spell a
    # group as one ligature (ﬃ), as part ligature and part letters (ﬀi, fﬁ), or as letters. Its letters may be
    # parted by a hyphen at a line's end, so they are joined like any other characters. A single character
    # becomes a class of its look-alikes: a curly quotation mark matches a straight one, a dash any dash.
    if len(unit) > 1:
        letters = _spellings(unit[0])
        for before, after in pairwise(unit):
            letters += _joint(before, after) + _spellings(after)
        return f"(?:{letters}|{_SHORT[unit]})"
    return "[" + "".join(f"\\x{{{ord(one):x}}}" for one in _ALIKE.get(unit, unit)) + "]"


def _eastern(unit: str) -> bool:
    return _EAST[0] <= unit <= _EAST[1]
