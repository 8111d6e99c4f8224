"""Cuts the body into chunks that cover all of it. Their texts are read on access."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Any, Literal, get_args, overload

from ..text.body import Body, Span
from .access_log import AccessLog, bounded
from .places import span_of
from .records import SHOWN_TEXT, LazyRecord, Record, Records, Text, shown

__all__ = ["ChunkUnit", "Chunks", "coverage_of", "cut"]

ChunkUnit = Literal["lines", "paragraphs", "headings", "messages", "documents"]

_UNITS = {
    "lines": re.compile(r"\n"),
    "paragraphs": re.compile(r"\n(?:[ \t\r]*\n)+"),
    "headings": re.compile(r"\n(?=#{1,6}[ \t])"),
}
# Room for the mark of a heading, and for a blank line in which a chunk may begin.
_LOOK_AROUND = 64
_MAX_GAPS = 20


class Chunks(Sequence[Record]):
    """Chunks as records (index, start, end, text, document); 1 GB in 50,000 chunks takes about a megabyte.

    A slice of it is as lazy as the whole.
    """

    __slots__ = ("_body", "_ends", "_first", "_indices", "_log", "_starts")

    def __init__(
        self, body: Body, log: AccessLog, starts: Sequence[int], ends: Sequence[int], *, first: int = 0
    ) -> None:
        """Take the edges of the chunks, counted from character `first` of the body."""
        self._body = body
        self._log = log
        self._first = first
        self._starts = starts
        self._ends = ends
        self._indices = range(len(starts))

    def __len__(self) -> int:
        return len(self._indices)

    @overload
    def __getitem__(self, at: int) -> Record: ...
    @overload
    def __getitem__(self, at: slice) -> Chunks: ...
    def __getitem__(self, at: int | slice) -> Record | Chunks:
        if isinstance(at, slice):
            part = Chunks(self._body, self._log, self._starts, self._ends, first=self._first)
            part._indices = self._indices[at]
            return part
        try:
            index = self._indices[at]
        except IndexError:
            raise IndexError(f"there is no chunk {at}: there are {len(self):,}") from None
        start, end = self._span(index)
        held = {"index": index, "start": start, "end": end}
        document = self._body.document_at(start)
        chunk = LazyRecord(held, ("text",), self)
        dict.__setitem__(chunk, "document", document.name if document else None)
        return chunk

    def spans(self) -> Iterator[Span]:
        """Return the spans of the chunks in order, without reading any text."""
        return map(self._span, self._indices)

    def _span(self, index: int) -> Span:
        return Span(self._first + self._starts[index], self._first + self._ends[index])

    def value(self, record: LazyRecord, key: str) -> Text:
        """Return the text of a chunk. `key` is "text"."""
        return self._text(record.start, record.end)

    def shown(self, record: LazyRecord, key: str) -> str:
        """Return the text in short form, for printing."""
        start, end = record.start, record.end
        return shown(self._text(start, min(end, start + SHOWN_TEXT)), end - start)

    def _text(self, start: int, end: int) -> Text:
        self._log.read(start, end)
        return Text(self._body.text(start, end), Span(start, end))

    def __repr__(self) -> str:
        if not self:
            return "[]"
        longest = max(end - start for start, end in self.spans())
        return (
            f"{len(self):,} chunks of up to {longest:,} characters, characters "
            f"{self[0].start:,} to {self[-1].end:,} (each has index, start, end, text, document)"
        )


Edges = tuple[Sequence[int], Sequence[int]]
"""The starts and the ends of chunks."""


def cut(body: Body, max_chars: int, overlap: int, by: ChunkUnit | None) -> Edges:
    """Cut the body into chunks of at most `max_chars` that cover all of it. Return their starts and ends.

    Each begins at most `overlap` characters before the end of the last one. With a unit, it begins at the
    first unit that starts there, and holds as many whole units as fit. A longer unit is cut at its last line
    end that fits, otherwise anywhere. A document that was cut shares no chunk with the next.
    Raises ValueError for invalid arguments.
    """
    if max_chars <= 0:
        raise ValueError(f"max_chars is {max_chars}. Give 1 or more (20000 is usual).")
    if not 0 <= overlap < max_chars:
        raise ValueError(f"overlap is {overlap}. Give 0 or more, and less than max_chars ({max_chars}).")
    if by is not None and by not in get_args(ChunkUnit):
        raise ValueError(f"by={by!r} is not a unit. Use {', '.join(map(repr, get_args(ChunkUnit)))} or None.")
    if by is None:
        step = max_chars - overlap
        count = max(1, -(-(body.chars - overlap) // step)) if body.chars else 0
        starts = range(0, count * step, step)
        return starts, _Ends(starts, max_chars, body.chars)
    return _pack_units(body, max_chars, overlap, _borders(body, by, overlap))


def _borders(body: Body, by: ChunkUnit, overlap: int) -> _Borders:
    match by:
        case "documents":
            return _document_borders(body)
        case "messages":
            if not body.marks.messages:
                raise ValueError(
                    "this input has no messages: use by='lines', 'paragraphs', 'headings' or 'documents'"
                )
            return _message_borders(body)
        case "headings":
            return _heading_borders(body)
        case _:
            return _text_borders(body, by, overlap)


class _Ends(Sequence[int]):
    """The ends of chunks of equal size."""

    __slots__ = ("_chars", "_size", "_starts")

    def __init__(self, starts: Sequence[int], size: int, chars: int) -> None:
        self._starts = starts
        self._size = size
        self._chars = chars

    def __len__(self) -> int:
        return len(self._starts)

    def __getitem__(self, at: Any) -> Any:
        return min(self._chars, self._starts[at] + self._size)


_Borders = Callable[[int, int], tuple[Sequence[int], bool]]
"""Takes two characters of the body. Returns the places after the first, up to the second, where units begin,
and whether the chunk must end at the last of them even if the rest of the body would fit."""


def _pack_units(body: Body, size: int, overlap: int, borders: _Borders) -> Edges:
    starts, ends = array("Q"), array("Q")
    start = 0
    while start < body.chars:
        limit = min(body.chars, start + size)
        places, stop = borders(start, limit)
        if limit == body.chars and not stop:
            end = limit
        elif places:
            end = places[-1]
        else:
            end = _last_line_end(body, start, limit)
        starts.append(start)
        ends.append(end)
        if end == body.chars:
            break
        back = max(start + 1, end - overlap)
        if overlap and places:
            # The next chunk may begin before the end of this one, but must reach at least one unit further.
            after, _ = borders(end, min(body.chars, end + size))
            back = max(back, (after[0] if after else body.chars) - size)
        start = next((place for place in places if back <= place < end), end)
    return starts, ends


def _text_borders(body: Body, by: ChunkUnit, overlap: int) -> _Borders:
    unit = _UNITS[by]

    def borders(start: int, limit: int) -> tuple[Sequence[int], bool]:
        if by == "lines" and not overlap:
            return (), False  # only the last line end that fits is needed
        first = max(0, start - _LOOK_AROUND)
        places = (first + found.end() for found in unit.finditer(body.text(first, limit + _LOOK_AROUND)))
        return [place for place in places if start < place <= limit], False

    return borders


def _message_borders(body: Body) -> _Borders:
    """Find the starts of messages, and the ends after which other text follows."""
    table = body.marks.messages

    def borders(start: int, limit: int) -> tuple[Sequence[int], bool]:
        rows = table.between(start, limit + 1)
        places = {table[row] for row in rows}
        # A message that began before `start` may end here too.
        places.update(table.row(row)[1] for row in range(max(0, rows.start - 1), rows.stop))
        return sorted(place for place in places if start < place <= limit), False

    return borders


def _heading_borders(body: Body) -> _Borders:
    """Find the starts of headings: those in the index, and lines of text that look like one."""
    table = body.marks.headings
    by_text = _text_borders(body, "headings", 0)

    def borders(start: int, limit: int) -> tuple[Sequence[int], bool]:
        places = {table[row] for row in table.between(start + 1, limit + 1)}
        for place in by_text(start, limit)[0]:
            document = body.document_at(min(place, body.chars - 1))
            if document is None or not document.headings_indexed:
                places.add(place)
        return sorted(places), False

    return borders


def _document_borders(body: Body) -> _Borders:
    starts = [document.start for document in body.documents]

    def borders(start: int, limit: int) -> tuple[Sequence[int], bool]:
        here = bisect_right(starts, start)
        inside = starts[here : bisect_right(starts, limit)]
        # The last part of a cut document is a separate chunk.
        tail = bool(inside) and starts[here - 1] != start
        return (inside[:1] if tail else inside), tail

    return borders


def _last_line_end(body: Body, start: int, limit: int) -> int:
    found = body.raw.rfind(b"\n", body.byte_of(start), body.byte_of(limit)) + 1
    return body.char_of(found) if found else limit


def coverage_of(whole: Span, chunks: Iterable[Any]) -> Record:
    """Return what chunks cover of the characters of `whole`: chunks, input_chars, covered_chars, gaps (the
    first 20) and complete."""
    spans = list(chunks.spans() if isinstance(chunks, Chunks) else map(_span_of, chunks))
    covered, at = 0, whole.start
    gaps: list[Span] = []
    for start, end in bounded(spans, len(spans)):
        first, last = max(at, start), min(end, whole.end)
        if first < last:
            if first > at:
                gaps.append(Span(at, first))
            covered += last - first
            at = last
    if at < whole.end:
        gaps.append(Span(at, whole.end))
    return Record(
        chunks=len(spans),
        input_chars=whole.end - whole.start,
        covered_chars=covered,
        gaps=Records(gaps[:_MAX_GAPS]),
        complete=not gaps,
    )


def _span_of(chunk: Any) -> Span:
    span = span_of(chunk)
    if span is None:
        raise TypeError(
            f"chunk_coverage takes chunks, hits or (start, end) pairs, not {type(chunk).__name__}"
        )
    return span
