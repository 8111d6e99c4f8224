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
from functools import partial
from itertools import islice
from typing import Any

from ..text.body import Body, Document, Span
from ..text.parts import MAX_PAGES, page_span, pages_within
from ..text.search import Scanner
from ..text.search_pattern import SearchPattern, across_lines, compile_pattern
from ..text.surroundings import section_of, sentence_at
from .access_log import AccessLog
from .chunks import ChunkUnit, chunks_of, coverage_of
from .hits import Hits
from .lines import lines_of
from .places import (
    Later,
    Listed,
    Passages,
    Place,
    Record,
    Records,
    Text,
    is_offset,
    is_pair,
    part_of,
    place_of,
    resolve_range,
    whole_number,
)
from .quotes import locate, nearest_line
from .rows import Rows

__all__ = ["MAX_HITS", "MAX_PEEK", "MAX_READ_ALL", "Handle", "is_numbered_page"]

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
    keys are attributes too. `body` is what the current question covers, `log` the record of what was read.
    """

    def __init__(
        self,
        body: Body,
        plan: Plan | None = None,
        chunk_chars: Callable[[], int] = lambda: _USUAL_CHUNK,
    ) -> None:
        self._whole = self.body = body
        self._plan = plan
        self._chunk_chars = chunk_chars
        self.log = AccessLog()
        self._scanner = Scanner(body)
        self._second_looks = 0
        self._documents: list[Place] | None = None
        # Attributes of a document that are no fields: dict(document) reads no text.
        self._of_document = {"text": self._whole_text, "page": lambda place: partial(self.page, place)}

    def _show(self, chars: int) -> None:
        """Limit the input to its first `chars` characters. Offsets of earlier results stay valid."""
        whole = self._whole
        self.body = whole if chars == whole.chars else whole.window(0, chars)
        self._scanner = Scanner(self.body)
        self._documents = None

    def context_meta(self) -> Record:
        """Return chars, lines, bytes, documents, preview, tail_preview, sha256, recommended_chunk, calls and
        cost_usd.

        The previews are the first and last 500 characters. The last three fields are what a full pass by
        children would take.
        """
        body = self.body
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
            self._documents = [self._document(document) for document in self.body.documents]
        fits = None if pattern is None else str(pattern).replace("**/", "*")
        chosen = (one for one in self._documents if fits is None or fnmatchcase(one["name"], fits))
        return Records(chosen, "document")

    def _document(self, document: Document) -> Place:
        counts = {"messages": document.messages, "pages": document.pages}
        return Place(
            {
                "index": document.index,
                "name": document.name,
                "kind": document.kind,
                "start": document.start,
                "end": document.end,
                **{name: count for name, count in counts.items() if count is not None},
            },
            beside=self._of_document,
        )

    def _whole_text(self, document: Place) -> Text:
        start, end = document.span
        if end - start > MAX_READ_ALL:
            raise ValueError(
                f"the document has {end - start:,} characters, .text returns up to {MAX_READ_ALL:,}: "
                "use chunk(within=document) or read_lines(within=document)"
            )
        return self._text(start, end)

    def page(self, document: Any, number: Any) -> Place:
        """Return document, page, start and end of a page, counted from 1. `document` is one of documents() or
        its name. Raises ValueError if there is no such page."""
        found = self.body.document_at(part_of(self.body, document, "the document").start)
        assert found is not None
        page = page_span(self.body, found, whole_number("the page", number))
        return Place(
            {"document": found.name, "page": page.number, "start": page.span.start, "end": page.span.end}
        )

    def pages(self, given: Any) -> list[Span]:
        """Return the spans of the pages that one place touches: a page, a span, a hit, a document, an offset,
        or (document, page). Raises TypeError or ValueError if it has none, or more than a child can see."""
        body = self.body
        if is_numbered_page(given):
            return [self.page(*given).span]
        start, end = place_of(body, given) if is_offset(given) else part_of(body, given, "pages")
        touched = list(islice(pages_within(body, Span(start, max(end, start + 1))), MAX_PAGES + 1))
        if not touched:
            document = body.document_at(start)
            named = f"{document.name!r} (kind {document.kind})" if document else "this input"
            raise ValueError(
                f"{named} has no pages to look at: only PDFs and pictures have. Read its text instead"
            )
        if len(touched) > MAX_PAGES:
            raise ValueError(
                f"a child sees at most {MAX_PAGES} pages. Give a list of pages, which gives one child each: "
                f"look([d.page(n) for n in range(1, d.pages + 1)], prompt), d being one of documents()"
            )
        return [page.span for page in touched]

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
            end = self.body.lines if unit == "lines" else self.body.chars
        if end is None:
            return self._bounded(*part_of(self.body, start, "start"))
        first, last = whole_number("start", start), whole_number("end", end)
        if unit == "chars":
            low, high = resolve_range(first, last, self.body.chars)
        elif unit == "lines":
            low, high = (self.body.line_start(n) for n in resolve_range(first, last, self.body.lines))
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
        self.log.scanned(first, first + (seen if more else part.chars))
        return Hits.of(
            self.body,
            self._text,
            min(max(0, around), _MAX_CONTEXT),
            [Span(first + start, first + end) for start, end in spans],
            truncated=more,
            count=lambda: self.count(pattern, within),
        )

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
        self.log.scanned(first, first + part.chars)
        return self._text(*locate(part, str(text), first=first))

    def nearest(self, quotes: Iterable[str]) -> Iterator[str]:
        """Yield a line about what stands nearest to each of the first few quotes that the body does not hold.

        Stops after some seconds of computing, and looks at no very large body.
        """
        if self.body.bytes > _SECOND_LOOK_BYTES:
            return
        end = time.process_time() + _NEAREST_SECONDS
        told = 0
        for quote in islice(quotes, _SECOND_LOOKS):
            if told == _MOST_NEAREST or time.process_time() > end:
                return
            try:
                locate(self.body, quote, explain=False)
            except (ValueError, TimeoutError):
                told += 1
                yield f"{quote[:_SHOWN_PATTERN]!r}: {nearest_line(self.body, quote)}"

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
        # Two offsets in a list are two places; a tuple is a span, or a row of a query.
        is_list = hasattr(where, "__iter__") and not isinstance(where, (str, Mapping))
        if not is_list or (isinstance(where, tuple) and (is_pair(where) or hasattr(where, "stands_for"))):
            return self._bounded(*self._reach(place_of(self.body, where), extra, by))
        windows: list[list[int]] = []
        for start, end in sorted(self._reach(place_of(self.body, one), extra, by) for one in where):
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
        self.log.scanned(first, first + part.chars)
        return found

    def read_lines(self, start: int = 0, end: int | None = None, within: Any = None) -> Listed:
        """Return lines, read lazily. Each is a str with number, start, end and text.

        With `within`, `start` and `end` count among the lines that are at least partly in that part. The
        numbers of the lines are those of the whole body.
        """
        body = self.body
        last = None if end is None else whole_number("end", end)
        low, high = 0, body.lines
        if within is not None:
            part = part_of(body, within)
            low, high = body.line_of(part.start), body.line_of(part.end - 1) + 1
        first, last = resolve_range(whole_number("start", start), last, high - low)
        return lines_of(body, self.log, range(low + first, low + last))

    def read_records(self, within: Any = None) -> Rows:
        """Return rows of JSON Lines, JSON, CSV or chats, read lazily: value, start, end, error, document.

        Skips documents of other kinds. With `within`, the rows that are at least partly in that part. Values
        of CSV are texts: sql() has their types. Raises ValueError if no document has rows.
        """
        part = None if within is None else part_of(self.body, within)
        return Rows(self.body, self.log, part)

    def read_all(self) -> str:
        """Return the whole body as one str. Raises ValueError for more than 20,000,000 characters."""
        if self.body.chars > MAX_READ_ALL:
            raise ValueError(
                f"the input has {self.body.chars:,} characters, read_all() returns up to {MAX_READ_ALL:,}: "
                "iterate over read_lines() or chunk(), or use search() and count()"
            )
        return self._text(0, self.body.chars)

    def chunk(
        self, max_chars: int | None = None, overlap: int = 0, by: ChunkUnit | None = None, within: Any = None
    ) -> Listed:
        """Return chunks that cover the whole body, or a part, read lazily: index, start, end, text, document.

        Each has at most `max_chars` characters (None: as many as a child takes), and begins at most `overlap`
        before the end of the last one. With `by` ("lines", "paragraphs", "headings", "messages" or
        "documents"), such units stay whole if they fit. A longer unit is cut, at a line end if possible.
        Small documents share a chunk. `document` is that of the chunk's start.
        """
        part = Span(0, self.body.chars) if within is None else part_of(self.body, within)
        size = self._chunk_chars() if max_chars is None else whole_number("max_chars", max_chars)
        return chunks_of(self.body, self._text, part, size, whole_number("overlap", overlap), by)

    def chunk_coverage(self, chunks: Iterable[Any], within: Any = None) -> Record:
        """Return what chunks, hits or (start, end) pairs cover of the body, or of a part.

        The fields are chunks, input_chars, covered_chars, gaps (the first 20) and complete.
        """
        whole = Span(0, self.body.chars) if within is None else part_of(self.body, within)
        return coverage_of(whole, chunks)

    def packs(self, ranked: Iterable[Any], within: Span | None = None) -> Records:
        """Return what the driver ranked, in the body or in a part, as records that read their text on access.
        `ranked` holds [(start, end), score, heading path] for each."""
        low, high = within or (0, self.body.chars)
        self.log.scanned(low, high)
        later = {
            "document": Later(lambda pack: self.document_name(pack.start)),
            "text": Later(lambda pack: self._text(pack.start, pack.end)),
        }
        packs = (
            {
                "index": index,
                "start": max(low, start),
                "end": min(high, end),
                "score": score,
                "heading_path": path,
                **later,
            }
            for index, ((start, end), score, path) in enumerate(ranked)
        )
        return Records(map(Place, packs), "pack")

    def document_name(self, char: int) -> str | None:
        """Return the name of the document of a character, or None outside the body."""
        document = self.body.document_at(char)
        return document.name if document else None

    def drain_access(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return (read, scanned) since the last call: what the cell got, and what was searched."""
        self._second_looks = 0
        return self.log.drain()

    def restore_access(self, read: Iterable[Span], scanned: Iterable[Span]) -> None:
        """Put back drained spans that could not be reported."""
        for span in read:
            self.log.read(*span)
        for span in scanned:
            self.log.scanned(*span)

    def quoted(self, answer: str, within: Span) -> Span | None:
        """Return the span in `within` of the longest passage that `answer` puts in double quotes.

        Returns None if no quoted passage of at least 20 characters is found.
        """
        if within.end - within.start > MAX_READ_ALL:
            return None
        quotes = [quote for quote in map(str.strip, _QUOTED.findall(answer)) if len(quote) >= _MIN_QUOTE]
        part = self.body.window(*within)
        for quote in sorted(dict.fromkeys(quotes), key=len, reverse=True)[:_MOST_QUOTES]:
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
        is_slow = query.linear is None or (query.backtracks and not query.exact)
        if wide is None or is_slow or part.bytes > _SECOND_LOOK_BYTES:
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
            return 0, self.body, self._scanner
        start, end = part_of(self.body, within)
        part = self.body.window(start, end)
        return start, part, Scanner(part)

    def _reach(self, place: Span, extra: int, by: str | None) -> tuple[int, int]:
        """Return the place of the sentence or section of `place`, or of its lines with `extra` more above
        and below."""
        body = self.body
        if by == "sentence":
            return sentence_at(body, place)
        if by == "section":
            return section_of(body, place.start)
        first = body.line_of(place.start) - extra
        last = body.line_of(max(place.start, place.end - 1)) + extra + 1
        return body.line_start(first), body.line_start(last)

    def _head(self, start: int, end: int, places: int) -> str:
        """Return the line above a passage: its place, and how many places of a list it holds."""
        body = self.body
        first, last = body.line_of(start), body.line_of(max(start, end - 1))
        lines = f"line {first}" if first == last else f"lines {first}-{last}"
        count = f", {places} places" if places > 1 else ""
        return f"[{start}-{end}, {lines} of {self.document_name(start)}{count}]"

    def _text(self, start: int, end: int) -> Text:
        span = Span(start, max(start, min(end, self.body.chars)))
        self.log.read(*span)
        return Text(self.body.text(*span), span.start)

    def _bounded(self, start: int, end: int) -> Text:
        self._check_size(end - start)
        return self._text(start, end)

    def _check_size(self, chars: int) -> None:
        if chars > MAX_PEEK:
            raise ValueError(
                f"that would be {chars:,} characters, more than {MAX_PEEK:,} at once: "
                "use chunk() or read_lines(), or a shorter range"
            )


def is_numbered_page(given: Any) -> bool:
    """Return whether `given` is (document, page)."""
    if not isinstance(given, (tuple, list)) or len(given) != 2 or is_pair(given):
        return False
    return isinstance(given[0], (str, Mapping)) and is_offset(given[1])
