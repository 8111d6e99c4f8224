"""Finds a quote in a transcript without its notes and times, and the blanks before its full stops.

A reader quotes `Twelve point three five.` of `Twelve {pause} point three five .`, and means the same words.
Subtitles break a sentence into lines, each with its time: `[00:01:07] Twelve point`, `[00:01:09] three five.`
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator, Mapping
from itertools import pairwise
from typing import Any

import re2

__all__ = ["spoken_places"]

_NOTE = r"(?:\{[a-zA-Z]{2,20}\}|\[\d{2,3}:\d\d:\d\d\])"
_NOTES = re.compile(_NOTE)
_SIGNS = re2.compile(rf"{_NOTE}|\w [.,?!] ")
"""What shows that a text is a transcript: notes, or blanks before its full stops."""
_PART = re.compile(r"\w+|[^\w\s]")
_MIN_PARTS, _MAX_PARTS = 4, 300


def spoken_places(
    quotes: Mapping[int, str], windows: Iterator[tuple[int, bytes]], check: Callable[[], None]
) -> Iterator[tuple[int, tuple[int, int]]]:
    """Yield the first place of each quote in a UTF-8 text, which is read in overlapping `windows`: the
    quote's number, and the first and last byte. `check` is called before each piece of work."""
    check()
    rest = {number: made for number, quote in quotes.items() if (made := _pattern(quote)) is not None}
    if not rest:
        return
    for low, data in windows:
        if _SIGNS.search(data) is None:
            continue
        for number, pattern in list(rest.items()):
            check()
            if (match := pattern.search(data)) is not None:
                yield number, (low + match.start(), low + match.end())
                del rest[number]
        if not rest:
            return


def _pattern(quote: str) -> Any:
    """Return a pattern over UTF-8 for the words and stops of a quote, whatever notes and blanks stand between
    them; None for a quote of few words or of very many."""
    parts = _PART.findall(_NOTES.sub(" ", quote))
    if not _MIN_PARTS <= len(parts) <= _MAX_PARTS:
        return None
    pieces = [re2.escape(parts[0])]
    for before, part in pairwise(parts):
        # Two words may not grow together.
        least = "+" if _is_word(before) and _is_word(part) else "*"
        pieces.append(rf"(?:\s|{_NOTE}){least}{re2.escape(part)}")
    options = re2.Options()
    options.log_errors = False
    return re2.compile("".join(pieces), options)


def _is_word(part: str) -> bool:
    return part[0].isalnum() or part[0] == "_"
