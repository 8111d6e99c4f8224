"""Quotes and citations, checked against the body before anybody is shown them."""

from __future__ import annotations

import re
from bisect import bisect_right
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property
from itertools import accumulate
from typing import Protocol

from rlm.types import Citation
from sandbox.types import Span

__all__ = ["CitableBody", "CitableDocument", "cite", "locate", "quotes_in"]

_WINDOW = 1 << 20
_NEIGHBOURHOOD = 500
_MAX_QUOTE = 5_000  # longer ones prove nothing that a span would not, and are not looked for
_MIN_ANSWER_QUOTE = 20
_WORD = re.compile(r"\S+")
_SHOWN = 600
_SUPERSCRIPT = str.maketrans("0123456789", "⁰¹²³⁴⁵⁶⁷⁸⁹")
_SENTENCE_END = " \t\n.,;:!?…"
_QUOTED = re.compile(
    r'"((?:[^"\n]|\n(?![ \t]*\n))*)"'  # straight marks, within one paragraph
    r"|“((?:[^“”\n]|\n(?![ \t]*\n))*)”"
    r"|«((?:[^«»\n]|\n(?![ \t]*\n))*)»"
)


class CitableDocument(Protocol):
    """A document of the body: its name, and where it starts in it, in characters."""

    @property
    def name(self) -> str: ...

    @property
    def start(self) -> int: ...


class CitableBody(Protocol):
    """What is needed of a body. Offsets are characters, lines count from 0."""

    @property
    def chars(self) -> int: ...

    def text(self, start: int, end: int) -> str: ...

    def line_of(self, char: int) -> int: ...

    def document_at(self, char: int) -> CitableDocument | None: ...


def quotes_in(answer: str) -> list[str]:
    """The passages of at least 20 characters that `answer` puts in double quotes (straight, curly or
    angular), in order, each once. One that runs over a blank line is not taken for a quote."""
    found = ((match[1] or match[2] or match[3] or "").strip() for match in _QUOTED.finditer(answer))
    return list(dict.fromkeys(passage for passage in found if len(passage) >= _MIN_ANSWER_QUOTE))


def locate(quote: str, body: CitableBody, near: Span | None = None) -> Span | None:
    """Where `quote` stands in the body, or None. Runs of white space count as equal.

    Looks at `near` first, then around it, then everywhere, preferring a verbatim place to one that differs
    in white space. The body is read in windows of about a million characters, never whole.
    """
    places: list[tuple[int, int]] = []
    if near is not None and 0 <= near.start < near.end <= body.chars:
        slack = max(_NEIGHBOURHOOD, len(quote))
        places = [near, (max(0, near.start - slack), min(body.chars, near.end + slack))]
    for start, end in [*places, (0, body.chars)]:
        span = _search([quote], body, start, end)[0]
        if span is not None:
            return span
    return None


def cite(evidence: Sequence[Span | str], answer: str, body: CitableBody) -> tuple[Citation, ...]:
    """One citation for each piece of evidence, in order, then for each quote of `answer` that none of these
    holds; markers are `[¹]`, `[²]`, … in that order and equal pieces are cited once.

    A quote is at most 600 characters, the head of a longer one; `start` and `end` are always the whole
    place. What lies outside the body or is not in it is `verified=False`, a quote then without a place. The
    full stop or comma that an answer puts inside its quotation marks need not be in the body.
    """
    pieces = list(dict.fromkeys(evidence))
    quotes = [piece for piece in pieces if isinstance(piece, str)]
    places = dict(zip(quotes, _search(quotes, body, 0, body.chars), strict=True))
    cited: list[tuple[str, Span | None, bool]] = []
    for piece in pieces:
        if isinstance(piece, str):
            cited.append((piece, places[piece], places[piece] is not None))
        elif 0 <= piece.start < piece.end <= body.chars:
            cited.append((body.text(piece.start, min(piece.end, piece.start + _SHOWN)), piece, True))
        else:
            cited.append(("", piece, False))
    said = list(dict.fromkeys(quote.rstrip(_SENTENCE_END) for quote in quotes_in(answer)))
    for _, place, verified in tuple(cited):
        if place is not None and verified:
            inside = _search(said, body, place.start, place.end)
            said = [quote for quote, span in zip(said, inside, strict=True) if span is None]
    for quote, span in zip(said, _search(said, body, 0, body.chars), strict=True):
        cited.append((quote, span, span is not None))
    return tuple(_citation(number, body, *entry) for number, entry in enumerate(cited, 1))


def _citation(number: int, body: CitableBody, quote: str, place: Span | None, verified: bool) -> Citation:
    document = None
    line = None
    if place is not None and verified:
        holder = body.document_at(place.start)
        line = body.line_of(place.start) + 1
        if holder is not None:
            document = holder.name
            line -= body.line_of(holder.start)
    return Citation(
        marker=f"[{str(number).translate(_SUPERSCRIPT)}]",
        quote=quote[:_SHOWN],
        start=None if place is None else place.start,
        end=None if place is None else place.end,
        document=document,
        page=None,
        line=line,
        verified=verified,
    )


class _Folded:
    """A window with every run of white space made one blank, and the way back to its own offsets."""

    def __init__(self, window: str) -> None:
        self._window = window

    @cached_property
    def text(self) -> str:
        return " ".join(self._window.split())

    @cached_property
    def _words(self) -> tuple[list[int], list[int]]:
        """Where each word starts, in the folded text and in the window. Only made once there is a hit."""
        starts = [word.span() for word in _WORD.finditer(self._window)]
        lengths = accumulate((end - start + 1 for start, end in starts), initial=0)
        return list(lengths)[:-1], [start for start, _ in starts]

    def origin(self, position: int) -> int:
        """Where in the window the character at `position` of the folded text stands."""
        folded, own = self._words
        index = bisect_right(folded, position) - 1
        return own[index] + position - folded[index]


class _Wanted:
    """A quote being looked for: its verbatim place ends the search, a folded one is kept for the end."""

    def __init__(self, quote: str) -> None:
        self.quote = quote.strip()
        words = self.quote.split() if len(self.quote) <= _MAX_QUOTE else []
        self.sought = bool(words)
        self.words = " ".join(words)
        self.longest = max(words, key=len, default="")
        self.reach = 2 * len(self.quote) + 64 * len(words) if words else 0
        self.exact: Span | None = None
        self.folded: Span | None = None

    def look(self, window: str, folded: _Folded, offset: int) -> None:
        at = window.find(self.quote)
        if at >= 0:
            self.exact = Span(offset + at, offset + at + len(self.quote))
        elif self.folded is None and " " in self.words and self.longest in window:
            at = folded.text.find(self.words)
            if at >= 0:
                end = folded.origin(at + len(self.words) - 1) + 1
                self.folded = Span(offset + folded.origin(at), offset + end)


def _search(quotes: Iterable[str], body: CitableBody, start: int, end: int) -> list[Span | None]:
    """The first place of each quote between `start` and `end`, in one pass for all of them."""
    wanted = [_Wanted(quote) for quote in quotes]
    sought = [item for item in wanted if item.sought]
    overlap = max((item.reach for item in sought), default=0)
    for window, offset in _windows(body, start, end, overlap) if sought else ():
        folded = _Folded(window)
        for item in sought:
            item.look(window, folded, offset)
        sought = [item for item in sought if item.exact is None]
        if not sought:
            break
    return [item.exact or item.folded for item in wanted]


def _windows(body: CitableBody, start: int, end: int, overlap: int) -> Iterator[tuple[str, int]]:
    while start < end:
        stop = min(end, start + _WINDOW + overlap)
        yield body.text(start, stop), start
        if stop == end:
            return
        start += _WINDOW
