"""Finds every match of a pattern in a body, as `re.finditer` over the whole text would, without holding it.

RE2 runs over the mapped bytes, window by window, in linear time. `re` looks again where RE2 can only tell
that a match may start, and runs alone with a time limit what RE2 does not support. A window ends at a line
end if no match can hold one. Otherwise it ends far enough after the last character where a match may start.

Two ways save work where RE2 alone is slow. Dense matches are counted eight a call of RE2. Letters in any case
are looked for by the rarest byte of one of them, and RE2 searches the lines that hold it.
"""

from __future__ import annotations

import signal
import threading
import time
from collections.abc import Callable, Generator, Iterator
from contextlib import contextmanager
from functools import partial
from heapq import merge
from itertools import islice, takewhile
from operator import methodcaller
from types import FrameType
from typing import Any, NoReturn

from .body import Body, Span
from .checkpoints import BLOCK, count_chars
from .search_pattern import (
    BATCH,
    SearchPattern,
    compile_batch,
    compile_probe,
    compile_words,
    spellings,
)

__all__ = ["Scanner"]

_FAR = 1_000_000
"""Characters that a match with line ends may span before its search stops."""
_WINDOW = 16 << 20
"""Bytes that RE2 searches at a time."""
_LINE = 32 << 20
"""Bytes of a line beyond which its text is not decoded as one."""
_NEAR = 4_096
"""Characters of a match over several lines. `re` looks for a longer one only where RE2 finds a start."""
_MANY = 4_096
"""Matches of `re` that are held at a time."""
_LAP = 64
"""Matches that are counted one by one before the next ones are counted in batches, if they are near."""
_APART = 1_024
"""Bytes between matches beyond which a batch is slower than single matches."""
_STEP = 16 << 10
"""Bytes that are counted in batches before their pace is compared."""
_PLAIN_STEP = 128 << 10
"""The same for a plain text: where it is rare for a while, counting its bytes is still as fast."""
_SLOW = 4
"""Steps of batches that may be slower than single matches: new states of RE2 are slow at first, and a pattern
with a wide gap has too many of them for ever."""
_SAMPLES = 16
_SAMPLE = 4_096
_RARE = 1_500
"""Places of a byte in the samples beyond which RE2 searches faster without it."""
_FEW = 8
"""Places of the letters in the samples beyond which too many lines hold them."""
_TAIL = 8
"""Letters that are compared after the rarest one."""

_span_of = methodcaller("span")

_Batch = tuple[int, list[tuple[int, int]]]
"""The spans of matches in order, in characters counted from one of the body."""


class Scanner:
    """Runs queries over one body. `window` is in bytes, `seconds` the time limit of `re` for one request."""

    __slots__ = ("_block", "_body", "_buffer", "_decoded", "_most_block", "_probes", "_seconds", "_window")

    def __init__(self, body: Body, *, window: int = _WINDOW, seconds: float = 30.0) -> None:
        self._body = body
        self._buffer = body.buffer
        self._window = window
        self._decoded = min(window, 4 << 20)
        self._block = max(1, window >> 12)
        self._most_block = max(1, window >> 4)
        self._probes: dict[SearchPattern, list[Any]] = {}
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
            if query.exact and query.linear is not None:
                return self._count(query)
            if query.word and compile_words(query.word, BATCH) is not None:
                return self._count_words(query)
            return sum(len(spans) for _, spans in self._looked_again(query, 0))

    def _spans(self, query: SearchPattern) -> Iterator[Span]:
        body = self._body
        if not query.exact or query.linear is None:
            for base, batch in self._looked_again(query, 1):
                yield from (Span(base + start, base + end) for start, end in batch)
            return
        byte = char = 0
        for start, end in self._found(query, 0):
            if body.ascii:
                yield Span(start, end)
                continue
            # Counted from the match before, if that is near.
            near = start - byte < BLOCK
            first = char + count_chars(body.read(byte, start)) if near else body.char_of(start)
            byte, char = end, first + count_chars(body.read(start, end))
            yield Span(first, char)

    def _count(self, query: SearchPattern) -> int:
        """Count the matches of RE2."""
        body, found, at, slow = self._body, 0, 0, 0
        matches = self._found(query, 0)
        while True:
            began, clock = at, time.thread_time()
            lap = list(islice(matches, _LAP))
            found += len(lap)
            if len(lap) < _LAP:
                return found
            at = self._after(*lap[-1])
            pace = (time.thread_time() - clock) / (at - began)
            is_near = at - began <= _LAP * _APART
            if not is_near or slow == _SLOW or at >= body.bytes or compile_batch(query) is None:
                continue
            while is_near and slow < _SLOW:
                began, clock = at, time.thread_time()
                counted, at = self._count_batches(query, at)
                found += counted
                body.passed(at - began)
                # A step without eight matches was read, too.
                slow += time.thread_time() - clock > 2 * pace * (at - began or _STEP)
                is_near = 2 * (at - began) > _STEP
            matches = self._found(query, at)

    def _count_batches(self, query: SearchPattern, at: int) -> tuple[int, int]:
        """Count from byte `at` in batches, for one step. Return the count and where it stopped."""
        if query.plain:
            stop = min(self._body.bytes, at + _PLAIN_STEP)
            found = self._body.read(at, stop + len(query.plain) - 1).count(query.plain)
            return (found, stop) if found * _APART > _PLAIN_STEP else (0, at)
        batch = compile_batch(query)
        core, stop = self._borders(query, at, _STEP)
        found, low, core = 0, max(0, at - 4), min(core, at + _STEP)
        # The end of the slice is the `\z` of the batch. Assertions look at the character before `at`.
        with memoryview(self._buffer) as whole, whole[low:stop] as text:
            while (end := low + batch.match(text, at - low).end()) < stop and end <= core:
                found, at = found + BATCH, end
        return found, at

    def _count_words(self, query: SearchPattern) -> int:
        """Count whole words in a body with letters beyond ASCII, whose bounds RE2 does not know."""
        body, found, at, stop = self._body, 0, 0, 0
        last = body.line_bytes(max(0, body.bytes - 1))[0]
        while stop < last:
            stop = body.line_bytes(min(at + self._most_block, last - 1))[1]
            place = next(self._matches(query, at, stop), None)
            # A step begins at a line end, or at the character after a word: neither is a letter.
            at = stop - 1 if place is None else max(at, body.line_bytes(place[0])[0] - 1)
            if place is None:
                body.passed(self._most_block)
                continue
            began, low = at, max(0, at - 4)
            with memoryview(self._buffer) as whole, whole[low : stop + 1] as text:
                for times in (BATCH, 1):
                    words = compile_words(query.word, times)
                    while (end := low + words.match(text, at - low).end()) <= stop:
                        # The character after a word may be the one before the next.
                        found, at = found + times, self._last_char(end)
            body.passed(stop - began)
            at = stop - 1
        return found + sum(len(spans) for _, spans in self._backtracked(query, last, body.bytes, 0))

    def _found(self, query: SearchPattern, at: int) -> Iterator[tuple[int, int]]:
        """Yield the bytes of the matches of RE2 from byte `at` on."""
        body, size = self._body, self._body.bytes
        # What the probes find in a window is found again where a search begins in the middle of it.
        window = self._most_block if self._probes_for(query) else self._window
        while at <= size:
            began = at
            core, stop = self._borders(query, at, window)
            for low, high in self._pieces(query, at, stop):
                for start, end in self._matches(query, max(at, low), high):
                    if start >= core and core < size:
                        break
                    yield start, end
                    at = self._after(start, end)
                    if at - began > self._window:
                        body.passed(at - began)
                        began = at
            if core == size:
                return
            at = max(at, core)
            body.passed(at - began)

    def _matches(self, query: SearchPattern, at: int, stop: int) -> Iterator[tuple[int, int]]:
        """Yield the bytes of the matches of RE2 in a piece. It sees the text around, so `^` and `\b` work."""
        while at <= stop:
            for match in query.linear.finditer(self._buffer, at, stop):
                start, end = match.span()
                yield start, end
                if start == end:
                    # RE2 would continue at the next byte, which may be inside a character.
                    at = self._after(start, end)
                    break
            else:
                return

    def _after(self, start: int, end: int) -> int:
        """Return where the search continues after a match: after an empty one with the next character."""
        return end if end > start else self._boundary(end + 1)

    def _pieces(self, query: SearchPattern, low: int, high: int) -> list[tuple[int, int]]:
        """Return the lines from `low` to `high` that may hold a match, or all as one piece if the letters of
        the pattern are no help."""
        probes = self._probes_for(query)
        if not probes:
            return [(low, high)]
        most = (high - low) // _APART + 1
        places = [
            [m.start() for m in islice(probe.finditer(self._buffer, low, high), most)] for probe in probes
        ]
        if max(map(len, places)) == most:
            return [(low, high)]
        lines: list[tuple[int, int]] = []
        end = low
        for place in merge(*places):
            if place >= end:
                start, end = self._body.line_bytes(place)
                lines.append((max(low, start), end))
        return lines

    def _probes_for(self, query: SearchPattern) -> list[Any]:
        """Return the RE2 patterns of the rarest letter with the ones after it: one stands in each match.

        There are none if they are not rare, or the body is small.
        """
        body = self._body
        if not query.letters or query.crosses or body.bytes < 2 * _SAMPLES * _SAMPLE:
            return []
        if query not in self._probes:
            step = body.bytes // _SAMPLES
            sample = b"".join(body.read(at, at + _SAMPLE) for at in range(0, body.bytes - _SAMPLE, step))
            ways = [
                spellings(letter, query.compiled.flags, ascii_body=body.ascii) for letter in query.letters
            ]
            rates = [sum(min(map(sample.count, way)) for way in each) for each in ways]
            rarest = rates.index(min(rates))
            tail = ways[rarest + 1 : rarest + 1 + _TAIL]
            probes = [compile_probe(way, tail, sample) for way in ways[rarest]]
            places = sum(1 for probe in probes for _ in probe.finditer(sample))
            is_rare = rates[rarest] <= _RARE and places <= _FEW
            self._probes[query] = probes if is_rare else []
        return self._probes[query]

    def _looked_again(self, query: SearchPattern, lap: int) -> Iterator[_Batch]:
        """Yield the matches of `re`, up to `lap` at once; if that is 0, they are only to be counted.

        It looks where RE2 finds that one may start, in growing blocks while such places are close together.
        """
        size = self._body.bytes
        if query.linear is None or query.nullable or not size:
            yield from self._backtracked(query, 0, size, lap)
            return
        if query.crosses and query.reach > _NEAR:
            yield from self._one_by_one(query)
            return
        at = block = 0
        found = self._found(query, 0)
        while at < size and (place := next(found, None)):
            if place[1] <= at:
                continue
            start, end = max(place[0], at), place[1]
            self._body.passed(start - at)
            block = min(self._most_block, 2 * block + self._block)
            block = block if start - at <= block else 0
            high = min(size, max(end, start + block))
            high = self._boundary(high) if query.crosses else self._body.line_bytes(high)[1]
            at = yield from self._backtracked(query, start, high, lap)
            if block:
                found = self._found(query, at)  # leaps over what `re` has searched

    def _borders(self, query: SearchPattern, at: int, window: int) -> tuple[int, int]:
        """Return the borders of a window from `at`: matches start before the first and end by the second."""
        size = self._body.bytes
        core = min(size, at + window)
        if core == size:
            return size, size
        if query.reach <= _FAR:
            return core, min(size, core + 4 * query.reach + 4)
        if query.crosses:
            # Only the whole rest of the body tells where such a match ends.
            return size, size
        border = self._body.line_bytes(core)[1]
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
                text = self._body.read(known, self._boundary(min(size, core + 4 * _FAR))).decode()
                base, local = self._body.char_of(known), 0
            local += count_chars(self._body.read(known, start))
            known = start
            found = query.compiled.match(text, local)
            if found is None:
                at = self._boundary(start + 1)
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
        body, at = self._body, low
        while True:
            core, stop = self._decoded_borders(query, at, high)
            before = self._boundary(max(0, at - 4 * query.behind - 4))
            text = body.read(before, stop).decode()
            last = count_chars(body.read(before, at))
            if not lap and core == stop < body.bytes and not query.nullable:
                yield 0, query.compiled.findall(text, last)  # without a step of Python for each
                at = core
                if core >= high:
                    return at
                continue
            base, limit = body.char_of(before), count_chars(body.read(before, core))
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
            border = self._body.line_bytes(core)[1]
            if border <= core + _LINE:
                return border, border
        core = self._boundary(core)
        return core, self._boundary(min(self._body.bytes, core + 4 * min(query.reach, _FAR) + 4))

    def _boundary(self, at: int) -> int:
        """Return the first byte at or after `at` where a character begins."""
        around = self._body.read(at, at + 3)
        return at + next((number for number, byte in enumerate(around) if byte & 0xC0 != 0x80), len(around))

    def _last_char(self, end: int) -> int:
        """Return where the character before `end` begins."""
        before = self._body.read(max(0, end - 4), end)
        return end - next(size for size in range(1, 5) if before[-size] & 0xC0 != 0x80)

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
