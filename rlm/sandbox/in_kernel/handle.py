"""Gives cells access to the input by bounded reads and searches.

The methods of the handle become the globals of a cell. A model reads their errors, so each error says what to
do instead.
"""

from __future__ import annotations

import re
import sys
import time
from collections.abc import Callable, Iterable, Iterator, Mapping
from fnmatch import fnmatchcase
from itertools import islice
from typing import Any

from ..text.body import Body, Document, Span
from ..text.search import Scanner
from ..text.search_pattern import SearchPattern, across_lines, compile_pattern
from ..text.surroundings import section_of, sentence_at
from .access_log import AccessLog
from .chunks import Chunks, ChunkUnit, coverage_of, cut
from .hits import HitReader, PackReader
from .lines import Lines
from .places import is_span, page_of, pages_of, place_of, resolve_range, stretch_of, whole_number
from .quotes import locate, nearest_line
from .records import DocumentRecord, Hit, Hits, LazyRecord, Passages, Record, Records, Text
from .rows import Rows

__all__ = ["MAX_HITS", "MAX_PEEK", "MAX_READ_ALL", "Handle"]

MAX_PEEK = 100_000
MAX_READ_ALL = 20_000_000
MAX_HITS = 200_000
_PREVIEW_CHARS = 500
_USUAL_CHUNK = 20_000
_MAX_CONTEXT = 10_000
_MIN_QUOTE = 20
_MOST_QUOTES = 5
_MOST_NEAREST = 3
_NEAREST_SECONDS = 5.0
_SHOWN_PATTERN = 80
_SECOND_LOOKS = 20
_SECOND_LOOK_BYTES = 64 << 20
_QUOTED = re.compile(r'["“]([^"“”\n]+)["”]')

Plan = Callable[[], Mapping[str, Any]]
"""Returns what a full pass would take now: recommended_chunk, calls, cost_usd."""


class Handle:
    """The helpers over one body.

    Characters and lines are counted from 0 over the whole body. Ends are exclusive. Records are dicts whose
    keys are attributes too.
    """

    def __init__(
        self,
        body: Body,
        plan: Plan | None = None,
        chunk_chars: Callable[[], int] = lambda: _USUAL_CHUNK,
    ) -> None:
        self._whole = self._body = body
        self._plan = plan
        self._chunk_chars = chunk_chars
        self._log = AccessLog()
        self._scanner = Scanner(body)
        self._second_looks = 0
        self._documents: list[Record] | None = None

    def _show(self, chars: int) -> None:
        """Limit the input to its first `chars` characters. Offsets of earlier results stay valid."""
        whole = self._whole
        self._body = whole if chars == whole.chars else whole.window(0, chars)
        self._scanner = Scanner(self._body)
        self._documents = None

    def context_meta(self) -> Record:
        """Return chars, lines, bytes, documents, preview, tail_preview, sha256, recommended_chunk, calls and
        cost_usd.

        The previews are the first and last 500 characters. The last three fields are what a full pass by
        children would take.
        """
        body = self._body
        plan = self._plan() if self._plan is not None else {}
        chunk = plan.get("recommended_chunk") or _USUAL_CHUNK
        return Record(
            chars=body.chars,
            lines=body.lines,
            bytes=body.bytes,
            documents=len(body.documents),
            preview=self._text(0, _PREVIEW_CHARS),
            tail_preview=self._text(max(0, body.chars - _PREVIEW_CHARS), body.chars),
            sha256=body.sha256,
            recommended_chunk=chunk,
            calls=plan.get("calls", -(-body.chars // chunk)),
            cost_usd=plan.get("cost_usd"),
        )

    def documents(self, pattern: str | None = None) -> Records:
        """Return the documents in order, or those whose name fits a pattern like '**/*.py'.

        The fields are index, name, kind, start, end, and messages or pages if known; `.text` is its text.
        `*` and `?` stand for any characters, also for `/`.
        """
        if self._documents is None:
            self._documents = [self._document(document) for document in self._body.documents]
        fits = None if pattern is None else str(pattern).replace("**/", "*")
        return Records(
            DocumentRecord(document, self)
            for document in self._documents
            if fits is None or fnmatchcase(document["name"], fits)
        )

    def page(self, document: Any, number: Any) -> Record:
        """Return document, page, start and end of a page, counted from 1. `document` is one of documents() or
        its name. Raises ValueError if there is no such page."""
        found = page_of(self._body, document, number)
        return Record(
            document=found.document.name, page=found.number, start=found.span.start, end=found.span.end
        )

    def whole_text(self, start: int, end: int) -> Text:
        """Return the text of a document. Raises ValueError for more than 20,000,000 characters."""
        if end - start > MAX_READ_ALL:
            raise ValueError(
                f"the document has {end - start:,} characters, .text returns up to {MAX_READ_ALL:,}: "
                "use chunk(within=document) or read_lines(within=document)"
            )
        return self._text(start, end)

    def pages(self, given: Any) -> list[Span]:
        """Return the spans of the pages that one place touches: a page, a span, a hit, a document, or
        (document, page). Raises TypeError or ValueError if it has none, or more than a child can see."""
        return [page.span for page in pages_of(self._body, given)]

    def _document(self, document: Document) -> Record:
        return Record(
            index=document.index,
            name=document.name,
            kind=document.kind,
            start=document.start,
            end=document.end,
            **({} if document.messages is None else {"messages": document.messages}),
            **({} if document.pages is None else {"pages": document.pages}),
        )

    def peek(self, start: Any, end: int | None = None, unit: str = "chars") -> Text:
        """Return the text from `start` to `end`, in characters or in whole lines with their line ends.

        Offsets are clamped, and negative ones count from the end: `peek(-900)` is the last 900 characters.
        The text is "" if `start` is beyond `end`. Alone, `start` is a place: a hit (its lines with their
        context), a chunk, a span, a section, a document. The `.span` of the text is its place. Raises
        ValueError for another unit or more than 100,000 characters.
        """
        if end is None and hasattr(type(start), "__index__"):
            if start >= 0:
                raise TypeError(
                    "end is missing: peek(start, end), or around(offset) for the lines around one"
                )
            end = self._body.lines if unit == "lines" else self._body.chars
        if end is None:
            return self._bounded(*stretch_of(self._body, start, "start"))
        first, last = whole_number("start", start), whole_number("end", end)
        if unit == "chars":
            low, high = resolve_range(first, last, self._body.chars)
        elif unit == "lines":
            low, high = (self._body.line_start(n) for n in resolve_range(first, last, self._body.lines))
        else:
            raise ValueError(f"unit={unit!r} is not a unit: use 'chars' or 'lines'")
        return self._bounded(low, high)

    def search(
        self, pattern: str | re.Pattern[str], max_hits: int = 100, context: int = 120, within: Any = None
    ) -> Hits:
        """Return the first `max_hits` (at most 200,000) matches of a regular expression, in order.

        They are those of `re.finditer` with MULTILINE, including empty ones. A hit has index, start, end,
        line, match (at most 500 characters), snippet (the match with `context` characters on both sides),
        line_text (at most 1,000 characters) and document. `.truncated` is whether there are more matches.
        `.total` is the number of all matches. `within` limits the search to a part of the body, which is
        searched as if it were the whole.

        A search takes linear time. A pattern that needs backtracking raises TimeoutError after 30 seconds,
        and its matches over several lines have at most 1,000,000 characters.
        """
        most, around = whole_number("max_hits", max_hits), whole_number("context", context)
        first, part, scanner = self._part(within)
        query = self._understood(pattern, part)
        spans, more = scanner.first(query, min(max(0, most), MAX_HITS))
        if not spans:
            self._look_across_lines(pattern, query, part, scanner)
        seen = spans[-1].end if spans else 0
        self._log.scanned(first, first + (seen if more else part.chars))
        fields = HitReader(self, min(max(0, around), _MAX_CONTEXT))
        hits = [
            Hit({"index": index, "start": first + start, "end": first + end}, HitReader.KEYS, fields)
            for index, (start, end) in enumerate(spans)
        ]
        return Hits(hits, truncated=more, count=lambda: self.count(pattern, within))

    def quote(self, text: str, within: Any = None) -> Text:
        """Return the place of the body that reads as `text`, as it stands there.

        Of several places that read alike it is the first verbatim one, or else the first. White space, line
        breaks, Unicode forms, quotation marks, dashes, Markdown's marks and the escapes of JSON may differ,
        as they may in evidence. Raises ValueError that names the nearest place if there is none, and
        TimeoutError if it cannot be looked up in time.
        """
        if not isinstance(text, str):
            raise TypeError(f"text must be the str to find, not {type(text).__name__}")
        first, part, _ = self._part(within)
        self._log.scanned(first, first + part.chars)
        return self._text(*locate(part, str(text), first=first))

    def nearest(self, quotes: Iterable[str]) -> Iterator[str]:
        """Yield a line about what stands nearest to each of the first few quotes that the body does not hold.

        Stops after some seconds of computing, and looks at no very large body.
        """
        if self._body.bytes > _SECOND_LOOK_BYTES:
            return
        end = time.process_time() + _NEAREST_SECONDS
        told = 0
        for quote in islice(quotes, _SECOND_LOOKS):
            if told == _MOST_NEAREST or time.process_time() > end:
                return
            try:
                locate(self._body, quote, explain=False)
            except (ValueError, TimeoutError):
                told += 1
                yield f"{quote[:_SHOWN_PATTERN]!r}: {nearest_line(self._body, quote)}"

    def around(self, where: Any, lines: int = 3, by: str | None = None) -> Text | Passages:
        """Return the whole lines of a hit, chunk, span or offset, with `lines` more above and below.

        With by='sentence' the sentence or sentences that hold it; with by='section' the whole message,
        section under a heading, function or page, else the document. Of a list of these it returns a list of
        texts in order: those that overlap or touch are one.
        """
        if by not in (None, "sentence", "section"):
            raise ValueError(
                f"by={by!r} is not known: use 'sentence' or 'section', or leave it out for lines"
            )
        extra = max(0, whole_number("lines", lines))
        listed = isinstance(where, (list, tuple)) or (
            not isinstance(where, (str, Mapping)) and hasattr(where, "__iter__")
        )
        # Two offsets in a list are two places; a tuple is a span.
        if not listed or (is_span(where) and isinstance(where, tuple)) or hasattr(where, "span"):
            return self._bounded(*self._reach(place_of(self._body, where), extra, by))
        windows: list[list[int]] = []
        for start, end in sorted(self._reach(place_of(self._body, one), extra, by) for one in where):
            if windows and start <= windows[-1][1]:
                windows[-1][1:] = [max(end, windows[-1][1]), windows[-1][2] + 1]
            else:
                windows.append([start, end, 1])
        self._check_size(sum(end - start for start, end, _ in windows))
        return Passages(
            (self._text(start, end) for start, end, _ in windows),
            (self._head(start, end, count) for start, end, count in windows),
        )

    def count(self, pattern: str | re.Pattern[str], within: Any = None) -> int:
        """Return the exact number of matches that `search` would find in the whole body, or in a part."""
        first, part, scanner = self._part(within)
        query = self._understood(pattern, part)
        found = scanner.count(query)
        if not found:
            self._look_across_lines(pattern, query, part, scanner)
        self._log.scanned(first, first + part.chars)
        return found

    def read_lines(self, start: int = 0, end: int | None = None, within: Any = None) -> Lines:
        """Return lines, read lazily. Each is a str with number, start, end and text.

        With `within`, `start` and `end` count among the lines that are at least partly in that part. The
        numbers of the lines are those of the whole body.
        """
        body = self._body
        last = None if end is None else whole_number("end", end)
        low, high = 0, body.lines
        if within is not None:
            stretch = stretch_of(body, within)
            low, high = body.line_of(stretch.start), body.line_of(stretch.end - 1) + 1
        first, last = resolve_range(whole_number("start", start), last, high - low)
        return Lines(body, self._log, low + first, low + last)

    def read_records(self, within: Any = None, typed: bool = False) -> Rows:
        """Return rows of JSON Lines, JSON, CSV or chats, read lazily: value, start, end, error, document.

        Skips documents of other kinds. With `within`, the rows that are at least partly in that part. If
        `typed`, the numbers, booleans and ISO dates of CSV, and the dates of JSON, are such by their column,
        an empty text is None, and `raw` is the value as it stands. Raises ValueError if no document has rows.
        """
        stretch = None if within is None else stretch_of(self._body, within)
        return Rows(self._body, self._log, stretch, typed=bool(typed))

    def read_all(self) -> str:
        """Return the whole body as one str. Raises ValueError for more than 20,000,000 characters."""
        if self._body.chars > MAX_READ_ALL:
            raise ValueError(
                f"the input has {self._body.chars:,} characters, read_all() returns up to {MAX_READ_ALL:,}: "
                "iterate over read_lines() or chunk(), or use search() and count()"
            )
        return self._text(0, self._body.chars)

    def chunk(
        self, max_chars: int | None = None, overlap: int = 0, by: ChunkUnit | None = None, within: Any = None
    ) -> Chunks:
        """Return chunks that cover the whole body, or a part, read lazily: index, start, end, text, document.

        Each has at most `max_chars` characters (None: as many as a child takes), and begins at most `overlap`
        before the end of the last one. With `by` ("lines", "paragraphs", "headings", "messages" or
        "documents"), such units stay whole if they fit. A longer unit is cut, at a line end if possible.
        Small documents share a chunk. `document` is that of the chunk's start.
        """
        first, part, _ = self._part(within)
        size = self._chunk_chars() if max_chars is None else whole_number("max_chars", max_chars)
        shared = whole_number("overlap", overlap)
        return Chunks(self._body, self._log, *cut(part, size, shared, by), first=first)

    def chunk_coverage(self, chunks: Iterable[Any], within: Any = None) -> Record:
        """Return what chunks, hits or (start, end) pairs cover of the body, or of a part.

        The fields are chunks, input_chars, covered_chars, gaps (the first 20) and complete.
        """
        whole = Span(0, self._body.chars) if within is None else stretch_of(self._body, within)
        return coverage_of(whole, chunks)

    def stretch(self, within: Any) -> Span:
        """Return the part of the body that `within` names."""
        return stretch_of(self._body, within)

    def packs(self, ranked: Iterable[Any], within: Span | None = None) -> Records:
        """Return what the driver ranked, in the body or in a part, as records that read their text on access.
        `ranked` holds [(start, end), score, heading path] for each."""
        low, high = within or (0, self._body.chars)
        self._log.scanned(low, high)
        fields = PackReader(self)
        return Records(
            LazyRecord(
                {
                    "index": index,
                    "start": max(low, start),
                    "end": min(high, end),
                    "score": score,
                    "heading_path": path,
                },
                PackReader.KEYS,
                fields,
            )
            for index, ((start, end), score, path) in enumerate(ranked)
        )

    @property
    def body(self) -> Body:
        """The body that the current question covers."""
        return self._body

    @property
    def access_log(self) -> AccessLog:
        """The record of what was read."""
        return self._log

    def document_name(self, char: int) -> str | None:
        """Return the name of the document of a character, or None outside the body."""
        document = self._body.document_at(char)
        return document.name if document else None

    def drain_access(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return (read, scanned) since the last call: what the cell got, and what was searched."""
        self._second_looks = 0
        return self._log.drain()

    def restore_access(self, read: Iterable[Span], scanned: Iterable[Span]) -> None:
        """Put back drained spans that could not be reported."""
        for span in read:
            self._log.read(*span)
        for span in scanned:
            self._log.scanned(*span)

    def resolved(self, start: int, end: int) -> Span:
        """Return the span of two offsets. They are clamped, and negative ones count from the end."""
        return Span(*resolve_range(start, end, self._body.chars))

    def quoted(self, answer: str, within: Span) -> Span | None:
        """Return the span in `within` of the longest passage that `answer` puts in double quotes.

        Returns None if no quoted passage of at least 20 characters is found.
        """
        if within.end - within.start > MAX_READ_ALL:
            return None
        quotes = [quote for quote in map(str.strip, _QUOTED.findall(answer)) if len(quote) >= _MIN_QUOTE]
        return self.first_of(sorted(dict.fromkeys(quotes), key=len, reverse=True), within)

    def first_of(self, quotes: Iterable[str], within: Span) -> Span | None:
        """Return the place in `within` of the first of some quotes that stands there, or None."""
        part = self._body.window(*within)
        for quote in islice(quotes, _MOST_QUOTES):
            try:
                return locate(part, quote, first=within.start, explain=False)
            except (ValueError, TimeoutError):
                continue
        return None

    def _look_across_lines(
        self, pattern: str | re.Pattern[str], query: SearchPattern, part: Body, scanner: Scanner
    ) -> None:
        """Report on stderr if a pattern without matches would match with line ends for its blanks.

        A phrase in wrapped text is easily missed. Done a few times in each cell, and only if it is fast.
        """
        wide = across_lines(pattern)
        if wide is None or query.linear is None or part.bytes > _SECOND_LOOK_BYTES:
            return
        self._second_looks += 1
        if self._second_looks > _SECOND_LOOKS:
            return
        found, more = scanner.first(self._understood(wide, part), 1)
        if found:
            source = query.source
            shown = source if len(source) <= _SHOWN_PATTERN else source[:_SHOWN_PATTERN] + "…"
            often = "more than once" if more else "once"
            sys.stderr.write(
                f"{shown!r} is not there on one line, but {often} across lines: write \\s+ for its blanks\n"
            )

    def _understood(self, pattern: str | re.Pattern[str], part: Body) -> SearchPattern:
        return compile_pattern(pattern, ascii_body=part.ascii)

    def _part(self, within: Any) -> tuple[int, Body, Scanner]:
        """Return the first character of a part of the body, the part and its scanner. None is the whole."""
        if within is None:
            return 0, self._body, self._scanner
        stretch = stretch_of(self._body, within)
        part = self._body.window(*stretch)
        return stretch.start, part, Scanner(part)

    def _reach(self, place: Span, extra: int, by: str | None) -> tuple[int, int]:
        """Return the place of the sentence or section of `place`, or of its lines with `extra` more above
        and below."""
        body = self._body
        if by == "sentence":
            return sentence_at(body, place)
        if by == "section":
            return section_of(body, place.start)
        first = body.line_of(place.start) - extra
        last = body.line_of(max(place.start, place.end - 1)) + extra + 1
        return body.line_start(first), body.line_start(last)

    def _head(self, start: int, end: int, places: int) -> str:
        """Return the line above a passage: its place, and how many places of a list it holds."""
        body = self._body
        first, last = body.line_of(start), body.line_of(max(start, end - 1))
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        count = f", {places} places" if places > 1 else ""
        return f"[{start}-{end}, {lines} of {self.document_name(start)}{count}]"

    def _text(self, start: int, end: int) -> Text:
        span = Span(start, max(start, min(end, self._body.chars)))
        self._log.read(*span)
        return Text(self._body.text(*span), span)

    def _bounded(self, start: int, end: int) -> Text:
        self._check_size(end - start)
        return self._text(start, end)

    def _check_size(self, chars: int) -> None:
        if chars > MAX_PEEK:
            raise ValueError(
                f"that would be {chars:,} characters, more than {MAX_PEEK:,} at once: "
                "use chunk() or read_lines(), or a shorter range"
            )
