"""Runs a pattern's RE2 object over the mapped bytes of a body, one match at a time or counting many at once.

Each match that RE2 reports costs a Python step of 1 to 2 µs. Where matches are dense, counting uses a second
pattern, which matches the next eight in one call. `((?:gap P)|rest)` repeated eight times is exact. Every
part prefers the shortest gap before P, then what P itself prefers. A part never fails, because without a P it
takes the rest of the text. So RE2 never gives up an earlier choice for a later one.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from itertools import islice
from types import ModuleType
from typing import Any

from ...text.body import Body
from .literal import Literal

__all__ = ["FAR", "LinearScan", "Spans", "compile_linear"]

FAR = 1_000_000
"""Characters that a match with line ends may span before its search stops."""

_MEMORY = 64 << 20
_BATCH = 8
_LAP = 64
"""Matches that are found one by one before their density is measured."""
_APART = 2_048
"""Bytes between matches beyond which finding them one by one is as fast."""
_STEP = 64 << 10
_SLOW = 8
"""Steps of a batch that may be slower than one match at a time."""
_PIECE = 28_000
"""Bytes in one call of `bytes.count`. CPython uses a faster algorithm for short texts."""
_DENSE = 1 << 20

Spans = Callable[[int], Iterator[tuple[int, int]]]
"""Yields the matches from a byte on."""


def compile_linear(engine: ModuleType, source: str) -> Any:
    """Return the RE2 object for a pattern, or None if it is too large or holds a lone surrogate."""
    options = engine.Options()
    options.log_errors = False
    options.max_mem = _MEMORY
    try:
        return engine.compile(source, options)
    except (engine.error, UnicodeEncodeError):
        return None


class LinearScan:
    """Finds and counts the matches of one RE2 object in one body. Offsets and `window` are in bytes.

    `reach` and `crosses` are those of the SearchPattern. If `empty`, every match is empty.
    """

    __slots__ = (
        "_batch",
        "_body",
        "_buffer",
        "_crosses",
        "_empty",
        "_engine",
        "_linear",
        "_raw",
        "_reach",
        "_slow",
        "_window",
    )

    def __init__(
        self,
        linear: Any,
        body: Body,
        window: int,
        *,
        reach: int,
        crosses: bool,
        empty: bool,
        engine: ModuleType,
    ) -> None:
        self._linear = linear
        self._body = body
        self._raw = body.raw
        self._buffer = body.buffer
        self._window = window
        self._reach = reach
        self._crosses = crosses
        self._empty = empty
        self._engine = engine
        self._batch: Callable[[Any, int, int], int] | None = None
        self._slow = 0

    def borders(self, at: int) -> tuple[int, int]:
        """Return the borders of a window from `at`: matches start before the first and end by the second."""
        size = self._body.bytes
        core = min(size, at + self._window)
        if core == size:
            return size, size
        if self._reach <= FAR:
            return core, min(size, core + 4 * self._reach + 4)
        if self._crosses:
            # Only the whole rest of the body tells where such a match ends.
            return size, size
        border = self._raw.find(b"\n", core) + 1 or size
        return border, border

    def spans(self, at: int = 0) -> Iterator[tuple[int, int]]:
        """Yield the matches from byte `at` on. RE2 sees the text around a window, so `^` and `\\b` work."""
        find, buffer, size = self._linear.search, self._buffer, self._body.bytes
        while at <= size:
            began = at
            core, stop = self.borders(at)
            while match := find(buffer, at, stop):
                start, end = match.span()
                if start >= core and core < size:
                    at = start
                    break
                yield start, end
                at = self.after(start, end)
                if at > size or (at >= core and core < size):
                    break
            else:
                at = max(at, core)
                if core == size:
                    return
            self._body.passed(at - began)

    def count(self, spans: Spans, literal: Literal | None) -> int:
        """Return how many matches there are. `spans` finds them one by one. `literal` is the text of every
        match, if it has one spelling and does not overlap itself."""
        found = at = 0
        matches = spans(at)
        while True:
            began, clock = at, time.thread_time()
            lap = list(islice(matches, _LAP))
            found += len(lap)
            if len(lap) < _LAP:
                return found
            at = self.after(*lap[-1])
            if at - began > _LAP * _APART:
                continue
            if literal is not None:
                counted, at = self._count_text(literal.usual, at)
            else:
                counted, at = self._count_batches(at, (time.thread_time() - clock) / (at - began))
            found += counted
            matches = spans(at)

    def after(self, start: int, end: int) -> int:
        """Return where the search continues after a match."""
        return end if end > start else end + self._width(end)

    def _count_text(self, wanted: bytes, at: int) -> tuple[int, int]:
        """Count `wanted` from `at` while it is dense. Return the count and where it stopped."""
        raw, size, more = self._raw, self._body.bytes, len(wanted) - 1
        found, apart = 0, 0
        while at < size and apart <= _APART:
            stop, counted = min(size, at + _DENSE), 0
            for low in range(at, stop, _PIECE):
                counted += raw[low : min(stop, low + _PIECE) + more].count(wanted)
            self._body.passed(stop - at)
            apart = (stop - at) // max(1, counted)
            found, at = found + counted, stop
        return found, at

    def _count_batches(self, at: int, pace: float) -> tuple[int, int]:
        """Count from `at` with eight matches in each call, while they are dense and in this window.

        Return the count and where it stopped. `pace` is the time of one match at a time, in seconds a byte.
        """
        batch = self._batch = self._batch or self._compiled_batch()
        core, stop = self.borders(at)
        # Assertions look at the character before. The end of the slice is the `\z` of the batch.
        low = max(0, at - 4)
        found, place, last = 0, at - low, stop - low
        mark, clock = place, time.thread_time()
        with memoryview(self._buffer) as whole, whole[low:stop] as text:
            while True:
                end = batch(text, place, last)
                if not place < end < last or end > core - low:
                    break
                apart, place = end - place, end
                found += _BATCH
                if apart > 2 * _BATCH * _APART:
                    break
                if place - mark > _STEP:
                    self._body.passed(place - mark)
                    if time.thread_time() - clock > 2 * pace * (place - mark):
                        # A new automaton is slow at first. One that outgrows RE2's memory stays slow.
                        self._slow += 1
                        if self._slow == _SLOW:
                            self._batch = _none_found
                            break
                    mark, clock = place, time.thread_time()
        return found, low + place

    def _compiled_batch(self) -> Callable[[Any, int, int], int]:
        """Return a function that returns the end of the next eight matches from a place.

        It returns the end of the text if there are fewer, or if the text ends with the eighth.
        """
        # After an empty match the search continues after the next character.
        one = f"(?:\\C*?(?:{self._linear.pattern}){'(?s:.)' if self._empty else ''}|\\C*\\z)"
        compiled = compile_linear(self._engine, one * _BATCH)
        if compiled is None:
            return _none_found
        with suppress(AttributeError):
            # The wrapper in Python takes longer than RE2 itself.
            match, anchor = compiled._regexp.Match, self._engine._re2.RE2.Anchor.ANCHOR_START
            return lambda text, at, last: int(match(anchor, text, at, last)[0][1])
        return lambda text, at, last: int(compiled.match(text, at, last).end())

    def _width(self, at: int) -> int:
        """Return the number of bytes of the character at `at` (1 at the end of the body)."""
        lead = self._raw[at] if at < self._body.bytes else 0
        return 1 + (lead >= 0xC0) + (lead >= 0xE0) + (lead >= 0xF0)


def _none_found(_text: Any, _at: int, last: int) -> int:
    return last
