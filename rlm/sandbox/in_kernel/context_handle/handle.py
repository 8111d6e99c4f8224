"""Gives cells access to the input by bounded reads and searches.

The methods of the handle become the globals of a cell. A model reads their errors, so each error says what to
do instead.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterable, Mapping
from typing import Any

from ..body.body import Body, Span
from ..searching.pattern import SearchPattern, understand
from ..searching.scanner import ENGINE, Scanner
from ..searching.wrapped import across_lines
from .access_log import AccessLog
from .chunks import Chunks, ChunkUnit, coverage_of, cut
from .lines import Lines, resolve_range
from .records import Hit, Hits, LazyRecord, Record, Records, Text, shown
from .rows import Rows
from .sections import section_of

__all__ = ["MAX_HITS", "MAX_PEEK", "MAX_READ_ALL", "Handle"]

MAX_PEEK = 100_000
MAX_READ_ALL = 20_000_000
MAX_HITS = 200_000
_PREVIEW_CHARS = 500
_USUAL_CHUNK = 20_000
_MATCH = 500
_LINE_TEXT = 1_000
_MAX_CONTEXT = 10_000
_PROOF = 400
_MIN_QUOTE = 20
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

    def __init__(self, body: Body, plan: Plan | None = None) -> None:
        self._whole = self._body = body
        self._plan = plan
        self._log = AccessLog()
        self._scanner = Scanner(body)
        self._second_looks = 0

    def _show(self, chars: int) -> None:
        """Limit the input to its first `chars` characters. Offsets of earlier results stay valid."""
        whole = self._whole
        self._body = whole if chars == whole.chars else whole.window(0, chars)
        self._scanner = Scanner(self._body)

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

    def documents(self) -> Records:
        """Return the documents in order: index, name, kind, start, end, and messages or pages if known."""
        return Records(
            Record(
                index=document.index,
                name=document.name,
                kind=document.kind,
                start=document.start,
                end=document.end,
                **({} if document.messages is None else {"messages": document.messages}),
                **({} if document.pages is None else {"pages": document.pages}),
            )
            for document in self._body.documents
        )

    def peek(self, start: int, end: int, unit: str = "chars") -> Text:
        """Return the text from `start` to `end`, in characters or in whole lines with their line ends.

        Offsets are clamped, and negative ones count from the end. The text is "" if `start` is beyond `end`.
        Its `.span` is its place. Raises ValueError for another unit or more than 100,000 characters.
        """
        first, last = _whole("start", start), _whole("end", end)
        if unit == "chars":
            low, high = resolve_range(first, last, self._body.chars)
        elif unit == "lines":
            low, high = (self._body.line_start(n) for n in resolve_range(first, last, self._body.lines))
        else:
            raise ValueError(f"unit={unit!r} is not a unit: use 'chars' or 'lines'")
        return self._bounded(low, high)

    def search(self, pattern: str | re.Pattern[str], max_hits: int = 100, context: int = 120) -> Hits:
        """Return the first `max_hits` (at most 200,000) matches of a regular expression, in order.

        They are those of `re.finditer` with MULTILINE, including empty ones. A hit has index, start, end,
        line, match (at most 500 characters), snippet (the match with `context` characters on both sides),
        line_text (at most 1,000 characters) and document. `.truncated` is whether there are more matches.
        `.total` is the number of all matches.

        A search takes linear time. A pattern that needs backtracking raises TimeoutError after 30 seconds,
        and its matches over several lines have at most 1,000,000 characters.
        """
        most, around = _whole("max_hits", max_hits), _whole("context", context)
        query = self._understood(pattern)
        spans, more = self._scanner.first(query, min(max(0, most), MAX_HITS))
        if not spans:
            self._look_across_lines(pattern, query)
        seen = spans[-1].end if spans else 0
        self._log.scanned(0, seen if more else self._body.chars)
        fields = _HitFields(self, min(max(0, around), _MAX_CONTEXT))
        hits = [
            Hit({"index": index, "start": start, "end": end}, _HitFields.KEYS, fields)
            for index, (start, end) in enumerate(spans)
        ]
        return Hits(hits, truncated=more, count=lambda: self.count(pattern))

    def around(self, where: Any, lines: int = 3) -> Text:
        """Return the whole lines of a hit, chunk, span or offset, with `lines` more above and below."""
        span = self._place(where)
        extra = max(0, _whole("lines", lines))
        body = self._body
        first = body.line_of(span.start) - extra
        last = body.line_of(max(span.start, span.end - 1)) + extra + 1
        return self._bounded(body.line_start(first), body.line_start(last))

    def section_at(self, where: Any) -> Record:
        """Return the message, heading, function or page of a hit, chunk, span or offset, else its document.

        The fields are title, kind ("message", "heading", "code", "page" or "document"), start, document, path
        (the headings above, from the top), page and message. The last two count from 1, or are None.
        """
        return section_of(self._body, self._place(where).start)

    def count(self, pattern: str | re.Pattern[str]) -> int:
        """Return the exact number of matches that `search` would find in the whole body."""
        query = self._understood(pattern)
        found = self._scanner.count(query)
        if not found:
            self._look_across_lines(pattern, query)
        self._log.scanned(0, self._body.chars)
        return found

    def read_lines(self, start: int = 0, end: int | None = None) -> Lines:
        """Return lines, read lazily. Each is a str with number, start, end and text."""
        last = None if end is None else _whole("end", end)
        return Lines(self._body, self._log, *resolve_range(_whole("start", start), last, self._body.lines))

    def read_records(self) -> Rows:
        """Return rows of JSON Lines, JSON, CSV or chats, read lazily: value, start, end, error, document.

        Skips documents of other kinds. Raises ValueError if no document has rows.
        """
        return Rows(self._body, self._log)

    def read_all(self) -> str:
        """Return the whole body as one str. Raises ValueError for more than 20,000,000 characters."""
        if self._body.chars > MAX_READ_ALL:
            raise ValueError(
                f"the input has {self._body.chars:,} characters, read_all() returns up to {MAX_READ_ALL:,}: "
                "iterate over read_lines() or chunk(), or use search() and count()"
            )
        return self._text(0, self._body.chars)

    def chunk(self, max_chars: int = 20000, overlap: int = 0, by: ChunkUnit | None = None) -> Chunks:
        """Return chunks that cover the whole body, read lazily: index, start, end, text, document.

        Each has at most `max_chars` characters and begins at most `overlap` before the end of the last one.
        With `by` ("lines", "paragraphs", "headings", "messages" or "documents"), such units stay whole if
        they fit. A longer unit is cut, at a line end if possible. Small documents share a chunk. `document`
        is that of the chunk's start.
        """
        return cut(self._body, self._log, _whole("max_chars", max_chars), _whole("overlap", overlap), by)

    def chunk_coverage(self, chunks: Iterable[Any]) -> Record:
        """Return what chunks, hits or (start, end) pairs cover: chunks, input_chars, covered_chars, gaps (the
        first 20) and complete."""
        return coverage_of(self._body, chunks)

    def packs(self, ranked: Iterable[Any]) -> Records:
        """Return what the driver ranked as records that read their text on access. `ranked` holds
        [(start, end), score, heading path] for each."""
        self._log.scanned(0, self._body.chars)
        fields = _PackFields(self)
        return Records(
            LazyRecord(
                {"index": index, "start": start, "end": end, "score": score, "heading_path": path},
                _PackFields.KEYS,
                fields,
            )
            for index, ((start, end), score, path) in enumerate(ranked)
        )

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
        """Return the span in `within` of the longest passage that `answer` quotes verbatim in double quotes.

        Returns None if no quoted passage of at least 20 characters is found.
        """
        if within.end - within.start > MAX_READ_ALL:
            return None
        text = self._body.text(*within)
        for quote in sorted(filter(None, map(str.strip, _QUOTED.findall(answer))), key=len, reverse=True):
            at = text.find(quote) if len(quote) >= _MIN_QUOTE else -1
            if at >= 0:
                return Span(within.start + at, within.start + at + len(quote))
        return None

    def _look_across_lines(self, pattern: str | re.Pattern[str], query: SearchPattern) -> None:
        """Report on stderr if a pattern without matches would match with line ends for its blanks.

        A phrase in wrapped text is easily missed. Done a few times in each cell, and only if it is fast.
        """
        wide = across_lines(pattern)
        if wide is None or query.linear is None or self._body.bytes > _SECOND_LOOK_BYTES:
            return
        self._second_looks += 1
        if self._second_looks > _SECOND_LOOKS:
            return
        found, more = self._scanner.first(self._understood(wide), 1)
        if found:
            source = query.source
            shown = source if len(source) <= _SHOWN_PATTERN else source[:_SHOWN_PATTERN] + "…"
            often = "more than once" if more else "once"
            sys.stderr.write(
                f"{shown!r} is not there on one line, but {often} across lines: write \\s+ for its blanks\n"
            )

    def _understood(self, pattern: str | re.Pattern[str]) -> SearchPattern:
        return understand(pattern, ascii_body=self._body.ascii, engine=ENGINE)

    def _text(self, start: int, end: int) -> Text:
        span = Span(start, max(start, min(end, self._body.chars)))
        self._log.read(*span)
        return Text(self._body.text(*span), span)

    def _bounded(self, start: int, end: int) -> Text:
        if end - start > MAX_PEEK:
            raise ValueError(
                f"that would be {end - start:,} characters, more than {MAX_PEEK:,} at once: "
                "use chunk() or read_lines(), or a shorter range"
            )
        return self._text(start, end)

    def _place(self, where: Any) -> Span:
        """Return the span of a hit, chunk, text, span or offset, within the body."""
        if isinstance(where, Mapping) and "start" in where:
            where = Span(where["start"], where.get("end", where["start"]))
        where = getattr(where, "span", where)
        if isinstance(where, (tuple, list)) and len(where) == 2:
            start, end = _whole("start", where[0]), _whole("end", where[1])
        elif isinstance(where, str) or where is None:
            raise TypeError(
                "where must be a hit, a chunk, (start, end) or an offset: search() finds the hit for a text"
            )
        else:
            start = end = _whole("where", where)
        start, _ = resolve_range(start, None, self._body.chars)
        return Span(start, max(start, min(end, self._body.chars)))


class _PackFields:
    """Computes the fields of a pack on access."""

    KEYS = ("document", "text")

    def __init__(self, handle: Handle) -> None:
        self._handle = handle

    def value(self, record: LazyRecord, key: str) -> Any:
        if key == "document":
            return self._handle.document_name(record.start)
        return self._handle._text(record.start, record.end)

    def shown(self, record: LazyRecord, key: str) -> str:
        return shown(self.value(record, key))


class _HitFields:
    """Computes the fields of a hit on access."""

    KEYS = ("line", "match", "snippet", "line_text", "document")

    def __init__(self, handle: Handle, context: int) -> None:
        self._handle = handle
        self._context = context

    def value(self, record: LazyRecord, key: str) -> Any:
        start, end = record.start, record.end
        handle = self._handle
        cut = min(end, start + _MATCH)
        match key:
            case "line":
                return handle._body.line_of(start)
            case "match":
                return handle._text(start, cut)
            case "snippet":
                return handle._text(max(0, start - self._context), cut + self._context)
            case "line_text":
                return handle._text(*self._line(start, end))
            case _:
                return handle.document_name(min(start, handle._body.chars - 1))

    def shown(self, record: LazyRecord, key: str) -> str:
        return shown(self.value(record, key))

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


def _whole(name: str, value: Any) -> int:
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} is a whole number, not {type(value).__name__}: use int(...) or // to make it one"
        ) from None
