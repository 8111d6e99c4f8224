"""Finds every match of a pattern in a body, as `re.finditer` over the whole text would, without holding it.

RE2 runs over the mapped bytes, window by window, in linear time. Patterns that it does not support run in
`re`, over decoded windows and with a time limit. A window ends at a line end if no match can hold one.
Otherwise it ends far enough after the last character where a match may start.
"""

from __future__ import annotations

import re
import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, takewhile
from operator import methodcaller
from types import FrameType, ModuleType
from typing import NoReturn

from ...text.body import Body, Span
from ...text.checkpoints import BLOCK, count_chars
from .linear import FAR, LinearScan, Spans
from .literal import LiteralScan, sample_of
from .pattern import SearchPattern
from .terms import Term, terms_of

try:
    import re2
except ImportError:
    re2 = None

__all__ = ["ENGINE", "Scanner"]

ENGINE: ModuleType | None = re2
"""The linear-time engine, or None if it is not installed."""

_WINDOW = 16 << 20
_LINE = 32 << 20
_LARGE = 256 << 10
_PROBED = 1 << 20
_NEAR = 4_096
_LAP = 4_096

_span_of = methodcaller("span")

_Batch = tuple[int, list[tuple[int, int]]]
"""A character of the body, and the spans of matches in order, counted from there."""


class Scanner:
    """Runs queries over one body.

    `window` is in bytes. `seconds` is the time limit of `re` for one request. In a body of at least `large`
    bytes, a plain text may be searched by its rarest byte.
    """

    __slots__ = (
        "_block",
        "_body",
        "_buffer",
        "_decoded",
        "_large",
        "_most_block",
        "_raw",
        "_sample",
        "_seconds",
        "_window",
    )

    def __init__(
        self, body: Body, *, window: int = _WINDOW, seconds: float = 30.0, large: int = _LARGE
    ) -> None:
        self._body = body
        self._raw = body.raw
        self._buffer = body.buffer
        self._window = window
        self._decoded = min(window, 4 << 20)
        self._block = max(1, window >> 12)
        self._most_block = max(1, window >> 4)
        self._seconds = seconds
        self._large = large
        self._sample = b""

    def first(self, query: SearchPattern, most: int) -> tuple[list[Span], bool]:
        """Return the first `most` matches, and whether there are more.

        Raises TimeoutError, or ValueError in a thread, where no time limit can be set.
        """
        with self._limit(query):
            found = list(islice(self._spans(query), most + 1))
        return found[:most], len(found) > most

    def count(self, query: SearchPattern) -> int:
        """Return how many matches there are. Raises as `first` does."""
        if not query.exact and self._body.bytes:
            terms = terms_of(query, ascii_body=self._body.ascii, engine=ENGINE)
            if terms:
                return sum(term.sign * self._count_term(term) for term in terms)
        with self._limit(query):
            if not (query.exact and query.linear is not None and self._body.bytes):
                return sum(len(spans) for _, spans in self._batches(query, _LAP))
            linear, text = self._linear(query), query.literal
            if text is not None and (text.folded or text.overlaps_itself()):
                text = None
            return linear.count(self._by_rare_bytes(query) or linear.spans, text)

    def _spans(self, query: SearchPattern) -> Iterator[Span]:
        if query.exact and query.linear is not None and self._body.bytes:
            spans = self._by_rare_bytes(query) or self._linear(query).spans
            yield from self._in_chars(spans(0))
            return
        for base, batch in self._batches(query, 1):
            for start, end in batch:
                yield Span(base + start, base + end)

    def _batches(self, query: SearchPattern, lap: int) -> Iterator[_Batch]:
        """Yield the matches that `re` finds, up to `lap` at once: a step of Python for each takes 1 µs."""
        if query.linear is None or query.nullable or not self._body.bytes:
            yield from self._backtracked(query, 0, self._body.bytes, lap)
        elif query.crosses and query.reach > _NEAR:
            yield from self._one_by_one(query)
        else:
            yield from self._in_blocks(query, lap)

    def _linear(self, query: SearchPattern) -> LinearScan:
        assert ENGINE is not None
        return LinearScan(
            query.linear,
            self._body,
            self._window,
            reach=query.reach,
            crosses=query.crosses,
            empty=query.nullable,
            engine=ENGINE,
        )

    def _count_term(self, term: Term) -> int:
        assert ENGINE is not None
        scan = LinearScan(
            term.linear,
            self._body,
            self._window,
            reach=term.reach,
            crosses=term.crosses,
            empty=False,
            engine=ENGINE,
        )
        return scan.count(scan.spans, None)

    def _by_rare_bytes(self, query: SearchPattern) -> Spans | None:
        """Return a faster search than RE2's own for a plain text in any case in a large body, or None."""
        literal = query.literal
        if literal is None or not literal.folded or ENGINE is None or self._body.bytes < self._large:
            return None
        self._sample = self._sample or sample_of(self._body)
        window = min(self._window, _PROBED)
        scan = LiteralScan(literal, self._body, self._sample, ENGINE, window)
        return scan.spans if scan.pays else None

    def _in_blocks(self, query: SearchPattern, lap: int) -> Iterator[_Batch]:
        """Yield the matches that `re` finds where RE2 finds that one may start. `re` searches larger and
        larger blocks while such places are close together."""
        find, buffer, size = query.linear.search, self._buffer, self._body.bytes
        linear = self._linear(query)
        at = block = 0
        while at < size:
            core, stop = linear.borders(at)
            match = find(buffer, at, stop)
            if match is None or match.start() >= core:
                self._body.passed(core - at)
                at, block = core, 0
                continue
            start, end = match.span()
            block = min(self._most_block, 2 * block + self._block) if start - at <= block + self._block else 0
            high = min(size, max(end, start + block))
            high = self._boundary(high) if query.crosses else self._line_end(high, size)
            at = yield from self._backtracked(query, start, high, lap)

    def _one_by_one(self, query: SearchPattern) -> Iterator[_Batch]:
        """Yield the matches that `re` finds at the places where RE2 finds that one may start, and only there.

        A match may span many lines, and a search in a window would look much further than needed.
        """
        find, buffer, size = query.linear.search, self._buffer, self._body.bytes
        at = core = known = behind = 0
        while at < size and (match := find(buffer, at, size)):
            start = match.start()
            if start >= core:
                self._body.passed(start - behind)
                behind = start
                known = self._boundary(max(0, start - 4 * query.behind - 4))
                core = min(size, start + self._most_block)
                text = self._raw[known : self._boundary(min(size, core + 4 * FAR))].decode()
                base, local = self._body.char_of(known), 0
            local += count_chars(self._raw[known:start])
            known = start
            found = query.compiled.match(text, local)
            if found is None:
                at = start + self._width(start)
                continue
            yield base, [found.span()]
            at = start + len(text[local : found.end()].encode())
        self._body.passed(size - behind)

    def _backtracked(
        self, query: SearchPattern, low: int, high: int, lap: int
    ) -> Generator[_Batch, None, int]:
        """Yield the matches of `re` that start within the bytes from `low` to `high`, up to `lap` at once.
        Return the byte where the search continues.

        `high` is a line end if no match holds one. Nothing runs in Python between the matches of a batch.
        """
        raw, body = self._raw, self._body
        at = low
        while True:
            core, stop = self._decoded_borders(query, at, high)
            before = self._boundary(max(0, at - 4 * query.behind - 4))
            text = raw[before:stop].decode()
            body.passed(stop - before)
            base = body.char_of(before)
            last, limit = count_chars(raw[before:at]), count_chars(raw[before:core])
            spans: Iterator[tuple[int, int]] = map(_span_of, query.compiled.finditer(text, last))
            if core < body.bytes:
                spans = takewhile((limit,).__gt__, spans)  # while a match starts before the limit
            while batch := list(islice(spans, lap)):
                last = batch[-1][1]
                yield base, batch
            at = core if last <= limit else before + len(text[:last].encode())
            if core >= high:
                return at

    def _decoded_borders(self, query: SearchPattern, at: int, high: int) -> tuple[int, int]:
        """Return the borders like `LinearScan.borders`, for a smaller window that is decoded."""
        core = min(high, at + self._decoded)
        if core == self._body.bytes or (core == high and not query.crosses):
            return core, core
        if not query.crosses:
            border = self._raw.find(b"\n", core, min(high, core + _LINE)) + 1
            if border:
                return border, border
        core = self._boundary(core)
        return core, self._boundary(min(self._body.bytes, core + 4 * min(query.reach, FAR) + 4))

    def _in_chars(self, spans: Iterator[tuple[int, int]]) -> Iterator[Span]:
        """Yield byte spans, in order, as character spans. Each is counted from the span before it."""
        if self._body.ascii:
            yield from (Span(start, end) for start, end in spans)
            return
        raw, body = self._raw, self._body
        byte = char = 0
        for start, end in spans:
            if start - byte < BLOCK:
                char += count_chars(raw[byte:start])
            else:
                char = body.char_of(start)
            first = char
            char += count_chars(raw[start:end])
            byte = end
            yield Span(first, char)

    def _line_end(self, at: int, size: int) -> int:
        """Return the first byte of the line after that of `at`, or the end of the body."""
        return self._raw.find(b"\n", at) + 1 or size

    def _boundary(self, at: int) -> int:
        """Return the first byte at or after `at` where a character begins."""
        while at < self._body.bytes and self._raw[at] & 0xC0 == 0x80:
            at += 1
        return at

    def _width(self, at: int) -> int:
        """Return the number of bytes of the character at `at` (1 at the end of the body)."""
        lead = self._raw[at] if at < self._body.bytes else 0
        return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)

    @contextmanager
    def _limit(self, query: SearchPattern) -> Iterator[None]:
        """Set a time limit if `re` does the work. Only a signal stops `re`."""
        if query.exact and query.linear is not None:
            yield
            return
        shown = query.source if len(query.source) <= 80 else query.source[:80] + "…"
        if threading.current_thread() is not threading.main_thread():
            if query.linear is not None and not _BACKTRACKS.search(query.source):
                # RE2 finds the places, and at one of them `re` tries each length of one repeat at most.
                yield
                return
            raise ValueError(
                f"{shown!r} needs the backtracking engine, which has no time limit in a thread: search in "
                "the cell itself, or use a pattern without groups, alternatives and back-references, with "
                "one repeat at most, that matches at least one character"
            )
        advice = (
            f"the search for {shown!r} was stopped after {self._seconds:g} s: it needs the backtracking "
            "engine. Leave out look-around, back-references and nested repeats, or search for a plain part "
            "of it and check hit.line_text with re"
        )
        with _alarm(self._seconds, partial(_expire, advice)):
            yield


_BACKTRACKS = re.compile(r"[*+?{].*[*+?{]|[(|]|\\[1-9]", re.DOTALL)
"""Where `re` may backtrack much at one place: two repeats, a group, alternatives, a back-reference."""


def _expire(advice: str) -> NoReturn:
    raise TimeoutError(advice)


@contextmanager
def _alarm(seconds: float, ring: Callable[[], NoReturn]) -> Iterator[None]:
    """Call `ring` after `seconds`, unless the block has ended. A timer from before is restored after it."""
    armed = True

    def handle(_number: int, _frame: FrameType | None) -> None:
        if armed:
            ring()

    handler = signal.signal(signal.SIGALRM, handle)
    began = time.monotonic()
    left, interval = signal.setitimer(signal.ITIMER_REAL, seconds)
    try:
        yield
    finally:
        armed = False
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, handler)
        if left:
            signal.setitimer(signal.ITIMER_REAL, max(0.001, left - (time.monotonic() - began)), interval)
