"""Makes the hits of a search: what a hit holds, what it stands for, and how a list of hits prints."""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from itertools import groupby, islice
from typing import Any

from ..text.body import Body, Span
from .places import Later, Place, Records, Text, Use

__all__ = ["Hits"]

_MATCH = 500
_LINE_TEXT = 1_000
_PROOF = 400
_MOST_LINES = 20
_MOST_HITS = 400
"""Hits looked at for these lines."""
_BEFORE, _AFTER = 53, 107
"""Characters of an excerpt around the start of a match."""
_FIELDS = frozenset({"index", "start", "end", "line", "match", "document"})


class Hits(Records):
    """Hits of a search, in order, or a slice of them. If `truncated`, `total` is the number of all matches,
    not `len()`."""

    __slots__ = ("_count", "_total", "truncated")

    def __init__(self, hits: list[Any], *, truncated: bool, count: Callable[[], int]) -> None:
        super().__init__(hits, "hit")
        self.truncated = truncated
        self._count = count
        self._total = None if truncated else len(hits)

    @classmethod
    def of(
        cls,
        body: Body,
        read: Callable[[int, int], Text],
        context: int,
        spans: list[Span],
        *,
        truncated: bool,
        count: Callable[[], int],
    ) -> Hits:
        """Return the hits of these spans. `read` returns a text of the body, `context` is the number of
        characters of a snippet on both sides, and `count` counts all matches."""

        def line(hit: Place) -> int:
            return body.line_of(_first_word(body, hit))

        def match(hit: Place) -> Text:
            return read(hit.start, min(hit.end, hit.start + _MATCH))

        def snippet(hit: Place) -> Text:
            return read(max(0, hit.start - context), min(hit.end, hit.start + _MATCH) + context)

        def line_text(hit: Place) -> Text:
            return read(*_line(body, _first_word(body, hit), hit.end))

        def document(hit: Place) -> str | None:
            found = body.document_at(min(hit.start, body.chars - 1))
            return found.name if found else None

        later = {one.__name__: Later(one) for one in (line, match, snippet, line_text, document)}
        reach = partial(_reach, body, context)
        hits = [
            Place({"index": index, "start": start, "end": end, **later}, reach=reach)
            for index, (start, end) in enumerate(spans)
        ]
        return cls(hits, truncated=truncated, count=count)

    @property
    def total(self) -> int:
        """Return the exact number of matches in the body. Counted on first access."""
        if self._total is None:
            self._total = self._count()
        return self._total

    def _part(self, items: list[Any]) -> Hits:
        part = Hits(items, truncated=self.truncated or len(items) < len(self), count=lambda: self.total)
        part._total = self._total
        return part

    def _heading(self) -> str:
        if not self.truncated:
            return super()._heading()
        if self._total is None:
            return f"{len(self):,} of at least {len(self) + 1:,} hits (.total counts them all)"
        return f"{len(self):,} of {self._total:,} hits"

    def _lines(self) -> tuple[list[str], int]:
        """Show hits on one line of the text together, and items that a cell has changed or added as they
        are."""
        lines: list[str] = []
        shown = 0
        groups = groupby(islice(list.__iter__(self), _MOST_HITS), _line_of)
        for is_whole, group in ((key[0], list(items)) for key, items in islice(groups, _MOST_LINES)):
            lines.append(_shown_line(group) if is_whole else f"  {group[0]!r}")
            shown += len(group)
        return lines, shown

    def __reduce__(self) -> tuple[Any, ...]:
        return Records, (list(self),)


def _reach(body: Body, context: int, hit: Place, use: Use) -> Span:
    """Return what a hit stands for: as a place its match, as evidence its line, else its lines with their
    context."""
    if use == "place":
        return hit.span
    return _proof(body, hit) if use == "evidence" else _passage(body, hit, context)


def _passage(body: Body, hit: Place, context: int) -> Span:
    """Return the match with its context, and the rest of the lines if they are short."""
    document = body.document_at(hit.start)
    first, last = (document.start, document.end) if document else (0, body.chars)
    low = max(first, hit.start - context)
    high = max(low, min(last, hit.end + context))
    reach = max(first, low - _LINE_TEXT)
    at = body.text(reach, low).rfind("\n")
    low = reach + at + 1 if at >= 0 or reach == first else low
    reach = min(last, high + _LINE_TEXT)
    at = body.text(high, reach).find("\n")
    high = high + at if at >= 0 else reach if reach == last else high
    return Span(low, high)


def _proof(body: Body, hit: Place) -> Span:
    """Return the line of the match. Of a long line, return the words around the match."""
    start, end = hit.span
    first, last = _line(body, start, end)
    last = max(last, end)
    if last - first > _PROOF:
        room = max(0, _PROOF - (end - start)) // 2
        low, high = max(first, start - room), min(last, end + room)
        before, after = body.text(low, start), body.text(end, high)
        # Keep whole words: skip to the first white space, and go back to the last.
        if low > first:
            low += next((at for at, char in enumerate(before, 1) if char.isspace()), len(before))
        if high < last:
            high -= next((at for at, char in enumerate(reversed(after), 1) if char.isspace()), len(after))
        first, last = low, high
    text = body.text(first, last)
    first += len(text) - len(text.lstrip())
    return Span(min(first, start), max(end, first + len(text.strip())))


def _first_word(body: Body, hit: Place) -> int:
    r"""Return where the first word of a match is: a pattern like `^\s*-` takes blank lines before it."""
    text = body.text(hit.start, min(hit.end, hit.start + _MATCH))
    blank = len(text) - len(text.lstrip())
    start: int = hit.start
    return start + blank if blank < len(text) else start


def _line(body: Body, start: int, end: int) -> tuple[int, int]:
    """Return the line where the match begins. Of a long line, return the part around the match."""
    low = max(0, start - _LINE_TEXT)
    before = body.text(low, start)
    after = body.text(start, start + _LINE_TEXT)
    first = low + before.rfind("\n") + 1
    line_end = after.find("\n")
    last = start + (len(after) if line_end < 0 else line_end)
    if last - first <= _LINE_TEXT:
        return first, last
    room = max(0, _LINE_TEXT - (min(end, last) - start)) // 2
    first = max(first, min(start - room, last - _LINE_TEXT))
    return first, min(last, first + _LINE_TEXT)


def _line_of(item: Any) -> tuple[bool, Any, Any]:
    """Return what hits on one line have in common. Other items have nothing in common."""
    text = item.get("line_text") if isinstance(item, Place) else None
    if not isinstance(text, Text) or not item.keys() >= _FIELDS:
        return False, id(item), None
    return True, item["document"], item["line"]


def _shown_line(group: list[Place]) -> str:
    first, start, end = group[0], group[0]["start"], group[-1]["end"]
    head = f"[{first['index']}]" if len(group) == 1 else f"[{first['index']}-{group[-1]['index']}]"
    count = "" if len(group) == 1 else f" {len(group)} hits,"
    text = first["line_text"]
    size = _BEFORE + _AFTER
    low = max(0, min(start - text.start - _BEFORE, len(text) - size))
    excerpt = ("…" if low else "") + text[low : low + size] + ("…" if low + size < len(text) else "")
    beyond = sum(hit["start"] >= text.start + low + size for hit in group)
    more = f" (+{beyond} more on it)" if beyond else ""
    return f"  {head}{count} {start}-{end}, line {first['line']} of {first['document']}: {excerpt}{more}"
