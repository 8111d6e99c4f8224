"""Finds every match of a pattern in a body, as `re.finditer` over the whole text would, without holding it.

One loop, two engines. RE2 runs over the mapped bytes, window by window, in linear time. `re` looks again
where RE2 can only tell that a match may start, runs alone with a time limit what RE2 does not support, and
finds matches of a plain pattern that stand so close together that a step of Python for each takes longer.
A window ends at a line end if no match can hold one. Otherwise it ends far enough after the last character
where a match may start.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from itertools import islice, takewhile
from operator import methodcaller
from types import FrameType
from typing import NoReturn

from .body import Body, Span
from .checkpoints import BLOCK, count_chars
from .search_pattern import SearchPattern, compile_pattern

__all__ = ["FAR", "Scanner", "compile_pattern"]

FAR = 1_000_000
"""Characters that a match with line ends may span before its search stops."""
_WINDOW = 16 << 20
_LINE = 32 << 20
_NEAR = 4_096
_MANY = 4_096
_DENSE = 32
"""Matches of RE2 in a row, each near the last, after which `re` is faster for the next bytes."""
_DENSE_BLOCK = 1 << 20

_span_of = methodcaller("span")

_Batch = tuple[int | None, list[tuple[int, int]]]
"""The spans of matches in order: in characters counted from one of the body, or in bytes if that is None."""


class Scanner:
    """Runs queries over one body. `window` is in bytes, `seconds` the time limit of `re` for one request."""

    __slots__ = ("_block", "_body", "_buffer", "_decoded", "_most_block", "_raw", "_seconds", "_window")

    def __init__(self, body: Body, *, window: int = _WINDOW, seconds: float = 30.0) -> None:
        self._body = body
        self._raw = body.raw
        self._buffer = body.buffer
        self._window = window
        self._decoded = min(window, 4 << 20)
        self._block = max(1, window >> 12)
        self._most_block = max(1, window >> 4)
        self._seconds = seconds

    def first(self, query: SearchPattern, most: int) -> tuple[list[Span], bool]:
        """Return the first `most` matches, and whether there are more.

        Raises TimeoutError, or ValueError in a thread, where no time limit can be set.
        """
        with self._limit(query):
            found = list(islice(self._spans(query), most + 1))
        return found[:most], len(found) > most

    def count(self, query: SearchPattern) -> int:
        """Return how many matches there are. Raises as `first` does."""
        with self._limit(query):
            return sum(len(spans) for _, spans in self._batches(query, 0))

    def _spans(self, query: SearchPattern) -> Iterator[Span]:
        body, raw = self._body, self._raw
        byte = char = 0
        for base, batch in self._batches(query, 1):
            for start, end in batch:
                if base is not None:
                    yield Span(base + start, base + end)
                elif body.ascii:
                    yield Span(start, end)
                else:
                    # Counted from the match before, if that is near.
                    near = start - byte < BLOCK
                    char = char + count_chars(raw[byte:start]) if near else body.char_of(start)
                    first = char
                    char += count_chars(raw[start:end])
                    byte = end
                    yield Span(first, char)

    def _batches(self, query: SearchPattern, lap: int) -> Iterator[_Batch]:
        """Yield the matches, up to `lap` of `re` at once; if that is 0, they are only to be counted."""
        size = self._body.bytes
        if query.linear is None or not size or (query.nullable and not query.exact):
            yield from self._backtracked(query, 0, size, lap)
        elif not query.exact and query.crosses and query.reach > _NEAR:
            yield from self._one_by_one(query)
        else:
            yield from self._in_windows(query, lap)

    def _in_windows(self, query: SearchPattern, lap: int) -> Iterator[_Batch]:
        """Yield the matches where RE2 finds that one may start. `re` searches larger and larger blocks while
        such places are close together."""
        buffer, size = self._buffer, self._body.bytes
        apart = query.dense_apart
        at = block = close = read = 0
        while at <= size:
            core, stop = self._borders(query, at)
            for match in query.linear.finditer(buffer, at, stop):
                start, end = match.span()
                if start >= core and core < size:
                    at, block = max(at, core), 0
                    break
                if query.exact and close < _DENSE:
                    yield None, [(start, end)]
                    close = close + 1 if start - at <= apart else 0
                    at = end
                    if end > start:
                        continue
                    at += self._width(end)
                    break
                if query.exact:
                    block, close = min(self._window, _DENSE_BLOCK), 0
                else:
                    block = min(self._most_block, 2 * block + self._block)
                    block = block if start - at <= block else 0
                high = min(size, max(end, start + block))
                high = self._boundary(high) if query.crosses else self._line_end(high, size)
                at = yield from self._backtracked(query, start, high, lap)
                at = size + 1 if high == size else at  # with what is empty at the end
                break
            else:
                if core == size:
                    break
                at, block = max(at, core), 0
            self._body.passed(at - read)
            read = at

    def _borders(self, query: SearchPattern, at: int) -> tuple[int, int]:
        """Return the borders of a window from `at`: matches start before the first and end by the second."""
        size = self._body.bytes
        core = min(size, at + self._window)
        if core == size:
            return size, size
        if query.reach <= FAR:
            return core, min(size, core + 4 * query.reach + 4)
        if query.crosses:
            # Only the whole rest of the body tells where such a match ends.
            return size, size
        border = self._raw.find(b"\n", core) + 1 or size
        return border, border

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
            last = count_chars(raw[before:at])
            if not lap and core == stop < body.bytes and not query.nullable:
                yield None, query.compiled.findall(text, last)  # without a step of Python for each
                at = core
                if core >= high:
                    return at
                continue
            base, limit = body.char_of(before), count_chars(raw[before:core])
            spans: Iterator[tuple[int, int]] = map(_span_of, query.compiled.finditer(text, last))
            if core < body.bytes:
                spans = takewhile((limit,).__gt__, spans)  # while a match starts before the limit
            while batch := list(islice(spans, lap or _MANY)):
                last = batch[-1][1]
                yield base, batch
            at = core if last <= limit else before + len(text[:last].encode())
            if core >= high:
                return at

    def _decoded_borders(self, query: SearchPattern, at: int, high: int) -> tuple[int, int]:
        """Return the borders like `_borders`, for a smaller window that is decoded."""
        core = min(high, at + self._decoded)
        if core == self._body.bytes or (core == high and not query.crosses):
            return core, core
        if not query.crosses:
            border = self._raw.find(b"\n", core, min(high, core + _LINE)) + 1
            if border:
                return border, border
        core = self._boundary(core)
        return core, self._boundary(min(self._body.bytes, core + 4 * min(query.reach, FAR) + 4))

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
            if query.linear is not None and not query.backtracks:
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
