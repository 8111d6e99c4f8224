"""The context handle: what a cell can do with the input, none of which puts the whole of it anywhere.

Its methods become the globals of a cell. Their errors are read by a model: each says what to do instead.
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
"""Gives what a full pass would take now: recommended_chunk, calls, cost_usd."""


class Handle:
    """The helpers over one body. Offsets are characters and lines are counted from 0, both over the whole
    body; ends are exclusive. Records are dicts whose keys are attributes too."""

    def __init__(self, body: Body, plan: Plan | None = None) -> None:
        self._whole = self._body = body
        self._plan = plan
        self._log = AccessLog()
        self._scanner = Scanner(body)
        self._second_looks = 0

    def _show(self, chars: int) -> None:
        """From now on the first `chars` characters are all there is. What was cut out before keeps its
        offsets."""
        whole = self._whole
        self._body = whole if chars == whole.chars else whole.window(0, chars)
        self._scanner = Scanner(self._body)

    def context_meta(self) -> Record:
        """Sizes, the first and last 500 characters, and what reading all of it by children would take:
        chars, lines, bytes, documents, preview, tail_preview, sha256, recommended_chunk, calls, cost_usd."""
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
        """The documents in order: index, name, kind, start, end, and messages or pages where known."""
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
        """The text from `start` to `end`, in characters or lines (whole, with their line ends).

        Clamped; negative counts from the end; `start` beyond `end` gives "". The result's `.span` is where
        it stands. ValueError for another unit, and for more than 100,000 characters.
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
        """The first `max_hits` (200,000 at most) matches of a regular expression, in order, as `re.finditer`
        with MULTILINE finds them (matches of nothing too).

        A hit has index, start, end, line, match (at most 500 characters), snippet (the match with `context`
        characters on both sides), line_text (at most 1,000 characters around it) and document. `.truncated`
        says whether there are more, `.total` how many there are in all. Linear time; a pattern that needs
        backtracking gets 30 seconds (then TimeoutError), and a match of such a pattern that runs over
        line ends is followed for at most 1,000,000 characters.
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
        """The whole lines of a hit, chunk, span or offset, with `lines` more above and below."""
        span = self._place(where)
        extra = max(0, _whole("lines", lines))
        body = self._body
        first = body.line_of(span.start) - extra
        last = body.line_of(max(span.start, span.end - 1)) + extra + 1
        return self._bounded(body.line_start(first), body.line_start(last))

    def section_at(self, where: Any) -> Record:
        """The message, heading, function or page that a hit, chunk, span or offset stands in, else its
        document: title, kind ("message", "heading", "code", "page" or "document"), start, document, path (the
        headings above it, the top one first), page and message (counted from 1; None where there is none)."""
        return section_of(self._body, self._place(where).start)

    def count(self, pattern: str | re.Pattern[str]) -> int:
        """How many matches `search` would find in the whole body: exact."""
        query = self._understood(pattern)
        found = self._scanner.count(query)
        if not found:
            self._look_across_lines(pattern, query)
        self._log.scanned(0, self._body.chars)
        return found

    def read_lines(self, start: int = 0, end: int | None = None) -> Lines:
        """Lines, lazily, each a str with number, start, end and text: iterate over all of them if need be."""
        last = None if end is None else _whole("end", end)
        return Lines(self._body, self._log, *resolve_range(_whole("start", start), last, self._body.lines))

    def read_records(self) -> Rows:
        """Rows of JSON Lines, a JSON array, CSV or a chat, lazily: value, start, end, error, document.
        Documents of other kinds are passed over; ValueError if there is none with rows."""
        return Rows(self._body, self._log)

    def read_all(self) -> str:
        """The whole body as one str. ValueError beyond 20,000,000 characters."""
        if self._body.chars > MAX_READ_ALL:
            raise ValueError(
                f"the input has {self._body.chars:,} characters, read_all() gives at most {MAX_READ_ALL:,}: "
                "go through it with read_lines() or chunk(), or use search() and count()"
            )
        return self._text(0, self._body.chars)

    def chunk(self, max_chars: int = 20000, overlap: int = 0, by: ChunkUnit | None = None) -> Chunks:
        """Chunks that cover the whole body, lazily: index, start, end, text, document (of its start).

        At most `max_chars` characters each, the next beginning at most `overlap` before the end of the last.
        With `by` ("lines", "paragraphs", "headings", "messages" or "documents") such units stay whole where
        they fit; a longer one is cut, at a line end if possible. Small documents share a chunk.
        """
        return cut(self._body, self._log, _whole("max_chars", max_chars), _whole("overlap", overlap), by)

    def chunk_coverage(self, chunks: Iterable[Any]) -> Record:
        """What chunks, hits or (start, end) pairs cover: chunks, input_chars, covered_chars, gaps (the first
        20) and complete."""
        return coverage_of(self._body, chunks)

    def packs(self, ranked: Iterable[Any]) -> Records:
        """What the driver ranked, [(start, end), score, heading path] each, as records that read their text
        when it is asked for."""
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
        """The name of the document that holds a character; None outside the body."""
        document = self._body.document_at(char)
        return document.name if document else None

    def drain_access(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """(read, scanned) since the last call: what a cell was handed, and what was searched for it."""
        self._second_looks = 0
        return self._log.drain()

    def restore_access(self, read: Iterable[Span], scanned: Iterable[Span]) -> None:
        """Put back what was drained but could not be told."""
        for span in read:
            self._log.read(*span)
        for span in scanned:
            self._log.scanned(*span)

    def resolved(self, start: int, end: int) -> Span:
        """The span of the input that two offsets mean: clamped, negative ones counting from the end."""
        return Span(*resolve_range(start, end, self._body.chars))

    def quoted(self, answer: str, within: Span) -> Span | None:
        """Where the longest passage that `answer` puts in double quotes stands in `within`, word for word;
        None when there is none of at least 20 characters."""
        if within.end - within.start > MAX_READ_ALL:
            return None
        text = self._body.text(*within)
        for quote in sorted(filter(None, map(str.strip, _QUOTED.findall(answer))), key=len, reverse=True):
            at = text.find(quote) if len(quote) >= _MIN_QUOTE else -1
            if at >= 0:
                return Span(within.start + at, within.start + at + len(quote))
        return None

    def _look_across_lines(self, pattern: str | re.Pattern[str], query: SearchPattern) -> None:
        """Say on stderr when a pattern that found nothing would, if its blanks could be line ends. Texts that
        are wrapped hide a phrase so, and nothing else would tell. A few times a cell, where it is fast."""
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
                "use chunk() or read_lines(), or ask for less"
            )
        return self._text(start, end)

    def _place(self, where: Any) -> Span:
        """The span that a hit, chunk, text, span or offset stands for, within the body."""
        if isinstance(where, Mapping) and "start" in where:
            where = Span(where["start"], where.get("end", where["start"]))
        where = getattr(where, "span", where)
        if isinstance(where, tuple) and len(where) == 2:
            start, end = _whole("start", where[0]), _whole("end", where[1])
        elif isinstance(where, str) or where is None:
            raise TypeError(
                "where is a hit, a chunk, (start, end) or an offset; search() finds the hit for a text"
            )
        else:
            start = end = _whole("where", where)
        start, _ = resolve_range(start, None, self._body.chars)
        return Span(start, max(start, min(end, self._body.chars)))


class _PackFields:
    """The fields of a pack that are worked out when they are asked for."""

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
    """The fields of a hit that are worked out when they are asked for."""

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
        """The match with its context, out to whole lines where these are not too long, in its document."""
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
        """The line of the match; of a long one, the words around it."""
        start, end = hit.start, hit.end
        body = self._handle._body
        first, last = self._line(start, end)
        last = max(last, end)
        if last - first > _PROOF:
            room = max(0, _PROOF - (end - start)) // 2
            low, high = max(first, start - room), min(last, end + room)
            before, after = body.text(low, start), body.text(end, high)
            # Whole words alone: up to the first white space, and back to the last.
            if low > first:
                low += next((at for at, char in enumerate(before, 1) if char.isspace()), len(before))
            if high < last:
                high -= next((at for at, char in enumerate(reversed(after), 1) if char.isspace()), len(after))
            first, last = low, high
        text = body.text(first, last)
        first += len(text) - len(text.lstrip())
        return Span(min(first, start), max(end, first + len(text.strip())))

    def _line(self, start: int, end: int) -> tuple[int, int]:
        """The line that the match begins on; of a longer one, what fits around the match."""
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
