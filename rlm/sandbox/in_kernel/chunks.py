"""Cuts the body into chunks that cover all of it. Their texts are read on access."""

from __future__ import annotations

import re
from array import array
from bisect import bisect_right
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Literal, get_args

from ..text.body import Body, Span
from .access_log import bounded
from .places import SHOWN_TEXT, Later, Listed, Place, Record, Text, shown, spans_of

__all__ = ["ChunkUnit", "chunks_of", "coverage_of"]

ChunkUnit = Literal["lines", "paragraphs", "headings", "messages", "documents"]

_UNITS = {
    "lines": re.compile(r"\n"),
    "paragraphs": re.compile(r"\n(?:[ \t\r]*\n)+"),
    "headings": re.compile(r"\n(?=#{1,6}[ \t])"),
}
# Room for the mark of a heading, and for a blank line in which a chunk may begin.
_LOOK_AROUND = 64
_MAX_GAPS = 20


def chunks_of(
    body: Body,
    read: Callable[[int, int], Text],
    part: Span,
    max_chars: int,
    overlap: int,
    by: ChunkUnit | None,
) -> Listed:
    """Return the chunks of a part of the body as lazy places: index, start, end, text and document.

    `read` returns a text of the body. Raises ValueError for invalid arguments.
    """
    starts, end_of = cut(body.window(*part), max_chars, overlap, by)

    def span(index: int) -> tuple[int, int]:
        return part.start + starts[index], part.start + end_of(index)

    def text(chunk: Place) -> Text:
        return read(chunk.start, chunk.end)

    def short(chunk: Place) -> str:
        start, end = chunk.span
        return shown(read(start, min(end, start + SHOWN_TEXT)), end - start)

    later = Later(text, short)

    def item(index: int) -> Place:
        start, end = span(index)
        document = body.document_at(start)
        name = document.name if document else None
        return Place({"index": index, "start": start, "end": end, "text": later, "document": name})

    def about(chunks: Listed) -> str:
        longest = max(end - start for start, end in map(span, chunks.numbers))
        return (
            f" of up to {longest:,} characters, characters {chunks[0].start:,} to {chunks[-1].end:,} "
            "(each has index, start, end, text, document)"
        )

    return Listed("chunk", range(len(starts)), item, about)


Edges = tuple[Sequence[int], Callable[[int], int]]
"""The starts of chunks, and a function that returns the end of a chunk by its number."""


def cut(body: Body, max_chars: int, overlap: int, by: ChunkUnit | None) -> Edges:
    """Cut the body into chunks of at most `max_chars` that cover all of it.

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
        return range(0, count * step, step), lambda at: min(body.chars, at * step + max_chars)
    return _pack_units(body, max_chars, overlap, by)


def _pack_units(body: Body, size: int, overlap: int, by: ChunkUnit) -> Edges:
    borders = _borders(body, by, overlap)
    starts, ends = array("Q"), array("Q")
    start = 0
    while start < body.chars:
        limit = min(body.chars, start + size)
        places = borders(start, limit)
        # The last part of a cut document is a chunk of its own.
        alone = by == "documents" and bool(places) and not _begins_document(body, start)
        if limit == body.chars and not alone:
            end = limit
        elif places:
            end = places[0 if alone else -1]
        else:
            end = _last_line_end(body, start, limit)
        starts.append(start)
        ends.append(end)
        if end == body.chars:
            break
        back = max(start + 1, end - overlap)
        if overlap and places:
            # The next chunk may begin before the end of this one, but must reach at least one unit further.
            after = borders(end, min(body.chars, end + size))
            back = max(back, (after[0] if after else body.chars) - size)
        start = next((place for place in places if back <= place < end), end)
    return starts, ends.__getitem__


_Borders = Callable[[int, int], Sequence[int]]
"""Takes two characters of the body. Returns the places after the first, up to the second, where units
begin."""


def _borders(body: Body, by: ChunkUnit, overlap: int) -> _Borders:
    marks = body.marks

    def of_text(start: int, limit: int) -> Sequence[int]:
        first = max(0, start - _LOOK_AROUND)
        text = body.text(first, limit + _LOOK_AROUND)
        places = (first + found.end() for found in _UNITS[by].finditer(text))
        return [place for place in places if start < place <= limit]

    def of_headings(start: int, limit: int) -> Sequence[int]:
        """Return those in the index, and lines of other text that look like one."""
        places = {marks.headings[row] for row in marks.headings.between(start + 1, limit + 1)}
        for place in of_text(start, limit):
            document = body.document_at(min(place, body.chars - 1))
            if document is None or not document.headings_indexed:
                places.add(place)
        return sorted(places)

    def of_messages(start: int, limit: int) -> Sequence[int]:
        """Return the starts of messages, and the ends after which other text follows."""
        table = marks.messages
        rows = table.between(start, limit + 1)
        places = {table[row] for row in rows}
        # A message that began before `start` may end here too.
        places.update(table.row(row)[1] for row in range(max(0, rows.start - 1), rows.stop))
        return sorted(place for place in places if start < place <= limit)

    def of_documents(start: int, limit: int) -> Sequence[int]:
        return documents[bisect_right(documents, start) : bisect_right(documents, limit)]

    documents = [document.start for document in body.documents]
    if by == "messages" and not marks.messages:
        raise ValueError(
            "this input has no messages: use by='lines', 'paragraphs', 'headings' or 'documents'"
        )
    if by == "lines" and not overlap:
        return lambda start, limit: ()  # only the last line end that fits is needed
    return {"headings": of_headings, "messages": of_messages, "documents": of_documents}.get(by, of_text)


def _begins_document(body: Body, start: int) -> bool:
    document = body.document_at(start)
    return document is not None and document.start == start


def _last_line_end(body: Body, start: int, limit: int) -> int:
    found = body.line_bytes(body.byte_of(limit))[0]
    return body.char_of(found) if found > body.byte_of(start) else limit


def coverage_of(whole: Span, chunks: Iterable[Any]) -> Record:
    """Return what chunks cover of the characters of `whole`: chunks, input_chars, covered_chars, gaps (the
    first 20) and complete."""
    spans = spans_of(chunks)
    if any(isinstance(one, str) for one in spans):
        raise TypeError("chunk_coverage takes chunks, hits or (start, end) pairs, not str")
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
        gaps=gaps[:_MAX_GAPS],
        complete=not gaps,
    )
