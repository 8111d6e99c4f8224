"""Finds the place of a quote in a body.

A verbatim place wins. Otherwise these differences, which print, PDF and models make, are ignored:

- other white space
- a word that is hyphenated at a line's end
- other quotation marks or dashes
- an ellipsis for three dots
- ligatures for letters

Different words or another order never match.

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

__all__ = ["MAX_SEARCHED_CHARS", "locate", "locate_all"]

MAX_SEARCHED_CHARS = 5_000
"""Characters. Longer quotes are not searched. Cite a span instead."""

_NEAR_CHARS = 500
_MAX_HINT_CHARS = 20_000  # a longer span does not say where to look
_MAX_HINTS = 100
_WINDOW_BYTES = 4 << 20
_MAX_HEAD_BYTES = 4_096  # of the head of a quote in the body, with all its white space
_HEAD_UNITS = 40
_MAX_WORK = 200_000
"""Limit of comparisons, in units of 64 bytes. Common phrases would need more, and are given up."""
_PATTERN_BYTES = 64 << 20

_SPACES = r"\t-\r\x{1c}-\x{20}\x{85}\x{a0}\x{1680}\x{2000}-\x{200b}\x{2028}\x{2029}\x{202f}\x{205f}\x{3000}"
_SPACE = rf"[{_SPACES}\x{{feff}}]"
_INVISIBLE = r"[\x{ad}\x{200b}\x{2060}\x{feff}]"
_WRAP = r"[ \t\x{a0}\x{3000}]*\r?\n[ \t\x{a0}\x{3000}]*"
_BREAK = rf"[-\x{{ad}}\x{{2010}}]{_WRAP}"
"""A hyphen at the end of a line, inside a word."""
_DASHES = "-‐‑‒–—―−"
_LOOKALIKES = {char: group for group in ('"“”„‟«»″', "'’‘‚‛′`´", _DASHES) for char in group}
_LIGATURES_TO_LETTERS = str.maketrans(
    {"ﬀ": "ff", "ﬁ": "fi", "ﬂ": "fl", "ﬃ": "ffi", "ﬄ": "ffl", "ﬆ": "st", "…": "..."}
)
_LETTERS_TO_LIGATURES = {
    "ff": "ﬀ", "fi": "ﬁ", "fl": "ﬂ", "ffi": "ﬃ|fﬁ|ﬀi", "ffl": "ﬄ|fﬂ|ﬀl", "st": "ﬆ", "...": "…"
}  # fmt: skip
_UNIT = re.compile(r"\s+|ffi|ffl|ff|fi|fl|st|\.\.\.|.")
_STRIPPED_CHARS = " \t\r\n…"
_EAST_ASIAN_RANGE = ("\u2e80", "\U0003ffff")
"""The first and the last character of the scripts whose lines are wrapped without a blank."""


def locate(quote: str, body: Body, near: Span | None = None) -> Span | None:
    """Return the place of `quote`, or None. A place inside `near` wins, then one around it, then any."""
    return locate_all([quote], body, [] if near is None else [near])[0]


def locate_all(
    quotes: Sequence[str], body: Body, near: Sequence[Span] = (), *, window: int = _WINDOW_BYTES
) -> list[Span | None]:
    """Return the place of each quote, or None. The first of these wins: a place inside a span of `near`, a
    place around one, the first verbatim place, the first place of any kind. `window` is in bytes."""
    found: dict[str, Span | None] = {}
    remaining: dict[str, _QuotePattern] = {}
    for quote in dict.fromkeys(quotes):
        text = _trim(quote)
        if text is None:
            found[quote] = None
            continue
        pattern = _QuotePattern(text)
        found[quote] = pattern.find_near(body, near[:_MAX_HINTS]) or pattern.find_verbatim(body)
        if found[quote] is None:
            remaining[quote] = pattern
    if remaining:
        found.update(_search_without_formatting(remaining, body, window))
    return [found[quote] for quote in quotes]


def _trim(quote: str) -> str | None:
    """Return the text to search for, or None if it is empty, too long, or not valid Unicode."""
    text = quote.strip().strip(_STRIPPED_CHARS)
    has_lone_surrogate = any("\ud800" <= char <= "\udfff" for char in text)
    return None if not text or has_lone_surrogate or len(text) > MAX_SEARCHED_CHARS else text


class _QuotePattern:
    """The pattern of one quote."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._data = text.encode()
        self.work = 1 + len(self._data) // 64

    def find_near(self, body: Body, near: Sequence[Span]) -> Span | None:
        """Return a place inside one of the spans `near`, or else a place close to one of them."""
        valid_hints = [
            span
            for span in near
            if 0 <= span.start < span.end <= min(body.chars, span.start + _MAX_HINT_CHARS)
        ]
        slack = max(_NEAR_CHARS, len(self._text))
        wide = [Span(max(0, span.start - slack), min(body.chars, span.end + slack)) for span in valid_hints]
        for start, end in [*valid_hints, *wide]:
            low, high = body.byte_of(start), body.byte_of(end)
            at = body.raw.find(self._data, low, high)
            if at >= 0:
                return _span(body, at, at + len(self._data))
            if match := self._pattern.search(body.buffer, low, high):
                return _span(body, *match.span())
        return None

    def find_verbatim(self, body: Body) -> Span | None:
        """Return the first verbatim place in the body."""
        spans = search_body(body, re.escape(self._text), 1)
        return spans[0] if spans else None

    def match_at(self, body: Body, byte: int) -> Span | None:
        """Return the place that begins at this byte, if any."""
        match = self._pattern.match(
            body.buffer, byte, min(body.bytes, byte + 8 * len(self._data) + _MAX_HEAD_BYTES)
        )
        return _span(body, *match.span()) if match else None

    @cached_property
    def head(self) -> str:
        """The pattern of the first units of the quote."""
        return _pattern_of(_UNIT.findall(self._text.translate(_LIGATURES_TO_LETTERS))[:_HEAD_UNITS])

    @cached_property
    def _pattern(self) -> Any:
        return _compile(_pattern_of(_UNIT.findall(self._text.translate(_LIGATURES_TO_LETTERS))))


def _search_without_formatting(
    patterns: Mapping[str, _QuotePattern], body: Body, window: int
) -> dict[str, Span]:
    """Find the first place of each quote, in one pass over the body for the heads of all quotes."""
    remaining = dict(patterns)
    found: dict[str, Span] = {}
    heads = _heads(remaining)
    work = 0
    for low in range(0, body.bytes, window):
        at, high = low, low + window
        while match := heads.search(body.buffer, at, min(body.bytes, high + _MAX_HEAD_BYTES)):
            start = match.start()
            if start >= high:
                break
            at = start + 1
            work += sum(item.work for item in remaining.values())
            here = {quote: span for quote, item in remaining.items() if (span := item.match_at(body, start))}
            if here:
                found.update(here)
                remaining = {quote: item for quote, item in remaining.items() if quote not in here}
                if remaining:
                    heads = _heads(remaining)
            if not remaining or work > _MAX_WORK:
                return found
    return found


def _heads(patterns: Mapping[str, _QuotePattern]) -> Any:
    return _compile("|".join(dict.fromkeys(item.head for item in patterns.values())))


def _compile(source: str) -> Any:
    options = re2.Options()
    options.log_errors = False
    options.max_mem = _PATTERN_BYTES
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
            # The quote itself was wrapped at a line's end, in a script without blanks.
            wrapped = "\n" in gap and _is_east_asian(before) and _is_east_asian(unit)
            parts.append(_SPACE + ("*" if wrapped else "+"))
        else:
            parts.append(_pattern_between(before, unit))
        parts.append(_spellings(unit))
        before, gap = unit, ""
    return "".join(parts)


def _pattern_between(before: str, after: str) -> str:
    """Return the pattern of what may stand in the body between two adjacent units of a quote."""
    if not before:
        return ""
    if before in _DASHES or (_is_east_asian(before) and _is_east_asian(after)):
        return f"(?:{_WRAP})?"
    if before[-1].isalnum() and after[0].isalnum():
        return f"(?:{_INVISIBLE}|{_BREAK})?"
    return ""


def _spellings(unit: str) -> str:
    """Return the pattern of every spelling of a unit in the body."""
    # A unit is one character, or a group such as `ffi` that print may set as a ligature. The body may spell a
    # group as one ligature (ﬃ), as part ligature and part letters (ﬀi, fﬁ), or as letters. Its letters may be
    # separated by a hyphen at a line's end, like any other characters. A single character
    # becomes a class of its look-alikes: a curly quotation mark matches a straight one, a dash any dash.
    if len(unit) > 1:
        letters = _spellings(unit[0])
        for before, after in pairwise(unit):
            letters += _pattern_between(before, after) + _spellings(after)
        return f"(?:{letters}|{_LETTERS_TO_LIGATURES[unit]})"
    return "[" + "".join(f"\\x{{{ord(one):x}}}" for one in _LOOKALIKES.get(unit, unit)) + "]"


def _is_east_asian(unit: str) -> bool:
    return _EAST_ASIAN_RANGE[0] <= unit <= _EAST_ASIAN_RANGE[1]
