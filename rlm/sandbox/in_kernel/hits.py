"""Computes the fields of hits and packs when a cell asks for them, and prints hits: one line for each line of
the text."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any

from ..text.body import Span
from .records import Hit, LazyRecord, Text, shown

__all__ = ["HitReader", "PackReader"]

_MATCH = 500
_LINE_TEXT = 1_000
_PROOF = 400


class PackReader:
    """Computes the fields of a pack on access."""

    KEYS = ("document", "text")

    def __init__(self, handle: Any) -> None:
        self._handle = handle

    def value(self, record: LazyRecord, key: str) -> Any:
        if key == "document":
            return self._handle.document_name(record.start)
        return self._handle._text(record.start, record.end)

    def shown(self, record: LazyRecord, key: str) -> str:
        return shown(self.value(record, key))


class HitReader:
    """Computes the fields of a hit on access."""

    KEYS = ("line", "match", "snippet", "line_text", "document")

    def __init__(self, handle: Any, context: int) -> None:
        self._handle = handle
        self._context = context

    def value(self, record: LazyRecord, key: str) -> Any:
        start, end = record.start, record.end
        handle = self._handle
        cut = min(end, start + _MATCH)
        match key:
            case "line":
                return handle._body.line_of(self._first_word(start, cut))
            case "match":
                return handle._text(start, cut)
            case "snippet":
                return handle._text(max(0, start - self._context), cut + self._context)
            case "line_text":
                return handle._text(*self._line(self._first_word(start, cut), end))
            case _:
                return handle.document_name(min(start, handle._body.chars - 1))

    def shown(self, record: LazyRecord, key: str) -> str:
        return shown(self.value(record, key))

    def lines(self, hits: list[Any]) -> tuple[list[str], int]:
        """Return the lines that print the first of some hits, and how many hits they show."""
        return _hit_lines(hits)

    def passage(self, hit: LazyRecord) -> Span:
        """Return the match with its context, and the rest of the lines if they are short."""
        body = self._handle._body
        document = body.document_at(hit.start)
        first, last = (document.start, document.end) if document else (0, body.chars)
        low = max(first, hit.start - self._context)
        high = max(low, min(last, hit.end + self._context))
        reach = max(first, low - _LINE_TEXT)
        at = body.text(reach, low).rfind("\n")
        low = reach + at + 1 if at >= 0 or reach == first else low
        reach = min(last, high + _LINE_TEXT)
        at = body.text(high, reach).find("\n")
        high = high + at if at >= 0 else reach if reach == last else high
        return Span(low, high)

    def proof(self, hit: LazyRecord) -> Span:
        """Return the line of the match. Of a long line, return the words around the match."""
        start, end = hit.start, hit.end
        body = self._handle._body
        first, last = self._line(start, end)
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

    def _first_word(self, start: int, end: int) -> int:
        r"""Return where the first word of a match is: a pattern like `^\s*-` takes blank lines before it."""
        text = self._handle._body.text(start, end)
        blank = len(text) - len(text.lstrip())
        return start + blank if blank < len(text) else start

    def _line(self, start: int, end: int) -> tuple[int, int]:
        """Return the line where the match begins. Of a long line, return the part around the match."""
        body = self._handle._body
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


_MOST_LINES = 20
_MOST_HITS = 400
"""Hits looked at for these lines."""
_BEFORE, _AFTER = 53, 107
"""Characters of an excerpt around the start of a match."""
_FIELDS = frozenset({"index", "start", "end", "line", "match", "document"})


def _hit_lines(hits: list[Any]) -> tuple[list[str], int]:
    """Return the lines that show the first hits of a list, and how many hits they show.

    Hits on one line of the text are shown together. Items that a cell has changed or added are shown as they
    are.
    """
    lines: list[str] = []
    shown = 0
    groups = groupby(islice(list.__iter__(hits), _MOST_HITS), _line_of)
    for is_whole, group in ((key[0], list(items)) for key, items in islice(groups, _MOST_LINES)):
        lines.append(_line(group) if is_whole else f"  {group[0]!r}")
        shown += len(group)
    return lines, shown


def _line_of(item: Any) -> tuple[bool, Any, Any]:
    """Return what hits on one line have in common. Other items have nothing in common."""
    text = item.get("line_text") if isinstance(item, Hit) else None
    if not isinstance(text, Text) or text.span is None or not item.keys() >= _FIELDS:
        return False, id(item), None
    return True, item["document"], item["line"]


def _line(group: list[Hit]) -> str:
    first, start, end = group[0], group[0]["start"], group[-1]["end"]
    head = f"[{first['index']}]" if len(group) == 1 else f"[{first['index']}-{group[-1]['index']}]"
    count = "" if len(group) == 1 else f" {len(group)} hits,"
    text = first["line_text"]
    size = _BEFORE + _AFTER
    low = max(0, min(start - text.span.start - _BEFORE, len(text) - size))
    excerpt = ("…" if low else "") + text[low : low + size] + ("…" if low + size < len(text) else "")
    beyond = sum(hit["start"] >= text.span.start + low + size for hit in group)
    more = f" (+{beyond} more on it)" if beyond else ""
    return f"  {head}{count} {start}-{end}, line {first['line']} of {first['document']}: {excerpt}{more}"
