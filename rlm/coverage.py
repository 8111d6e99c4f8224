"""How much of the body was seen: sets of spans, and the ledger of one run that keeps five of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Literal, Protocol

from rlm.types import Coverage
from sandbox.types import Span

__all__ = ["MAX_SPANS", "Above", "CoverageLedger", "IntervalSet", "Noted"]

Noted = Literal["read", "scanned", "sent", "answered", "failed"]

MAX_SPANS = 200_000
"""Spans that one set holds, some 20 MB: a kernel that lies may report any number of them."""

_GAPS_SHOWN = 20
_BLOCK = 512


class IntervalSet:
    """A set of positions, kept as sorted disjoint half-open spans that never touch.

    They stand in blocks of a bounded size: adding is two binary searches and one splice of a short list,
    whatever the order. Empty spans (`end <= start`) hold nothing and are ignored. Of more than `limit` spans
    the shortest are forgotten: the set then holds less than was put in, never more.
    """

    __slots__ = ("_ends", "_firsts", "_length", "_limit", "_starts", "_total")

    def __init__(self, spans: Iterable[Span] = (), *, limit: int = MAX_SPANS) -> None:
        self._limit = limit
        self._clear()
        for start, end in spans:
            self.add(start, end)

    def __iter__(self) -> Iterator[Span]:
        for starts, ends in zip(self._starts, self._ends, strict=True):
            yield from map(Span, starts, ends)

    def __len__(self) -> int:
        """How many disjoint spans there are."""
        return self._length

    def __repr__(self) -> str:
        return f"IntervalSet({len(self)} spans, {self._total} positions)"

    def add(self, start: int, end: int) -> None:
        """Put every position of `start <= position < end` in."""
        if end <= start:
            return
        # Every span that overlaps or touches the new one melts into it: from `first` in the block `low` to
        # before `last` in the block `high`.
        low = max(0, bisect_right(self._firsts, start) - 1)
        high = max(low, bisect_right(self._firsts, end) - 1)
        first = bisect_left(self._ends[low], start)
        last = bisect_right(self._starts[high], end)
        if low == high:
            if first < last:
                start = min(start, self._starts[low][first])
                end = max(end, self._ends[low][last - 1])
            self._splice(low, first, last, [start], [end])
        else:
            if first < len(self._starts[low]):
                start = min(start, self._starts[low][first])
            if last:
                end = max(end, self._ends[high][last - 1])
            self._splice(high, 0, last, [], [])
            for block in range(low + 1, high):
                self._splice(block, 0, len(self._starts[block]), [], [])
            self._splice(low, first, len(self._starts[low]), [start], [end])
            kept = [block for block in range(low + 1, high + 1) if self._starts[block]]
            for blocks in (self._starts, self._ends):
                blocks[low + 1 : high + 1] = [blocks[block] for block in kept]
            self._firsts[low + 1 : high + 1] = [
                starts[0] for starts in self._starts[low + 1 : low + 1 + len(kept)]
            ]
        self._firsts[low] = self._starts[low][0]
        if len(self._starts[low]) > 2 * _BLOCK:
            self._split(low)
        if self._length > self._limit:
            self._forget()

    def total(self) -> int:
        """How many positions are in."""
        return self._total

    def contains(self, span: Span) -> bool:
        """Whether every position of `span` is in; true of an empty span."""
        start, end = span
        if end <= start:
            return True
        block = max(0, bisect_right(self._firsts, start) - 1)
        index = bisect_right(self._starts[block], start) - 1
        return index >= 0 and self._ends[block][index] >= end

    def gaps(self, within: Span) -> Iterator[Span]:
        """The stretches of `within` that are not in, in order, lazily."""
        position, end = within
        block = max(0, bisect_right(self._firsts, position) - 1)
        index = bisect_right(self._ends[block], position)
        while position < end:
            while block < len(self._starts) and index >= len(self._starts[block]):
                block, index = block + 1, 0
            if block == len(self._starts):
                yield Span(position, end)
                return
            start = self._starts[block][index]
            if start > position:
                yield Span(position, min(start, end))
            position = self._ends[block][index]
            index += 1

    def _clear(self) -> None:
        self._starts: list[list[int]] = [[]]
        self._ends: list[list[int]] = [[]]
        self._firsts: list[int] = [0]
        self._total = self._length = 0

    def _splice(self, block: int, first: int, last: int, new_starts: list[int], new_ends: list[int]) -> None:
        """Put these spans, one at most, in the place of those from `first` to before `last` of a block."""
        starts, ends = self._starts[block], self._ends[block]
        self._total += sum(new_ends) - sum(new_starts) - sum(ends[first:last]) + sum(starts[first:last])
        self._length += len(new_starts) - (last - first)
        starts[first:last] = new_starts
        ends[first:last] = new_ends

    def _split(self, block: int) -> None:
        for blocks in (self._starts, self._ends):
            blocks[block : block + 1] = [blocks[block][:_BLOCK], blocks[block][_BLOCK:]]
        self._firsts.insert(block + 1, self._starts[block + 1][0])

    def _forget(self) -> None:
        """Keep the longest three quarters of what may be held."""
        kept = sorted(self, key=lambda span: span.start - span.end)[: self._limit * 3 // 4]
        self._clear()
        for start, end in sorted(kept):
            self.add(start, end)


class Above(Protocol):
    """The ledger of the run above, as a sub-RLM's own sees it: what is noted below is noted there, too."""

    def note(self, what: Noted, spans: Sequence[Span]) -> None: ...


class CoverageLedger:
    """What one run saw of a body of `input_chars` characters, whatever its answer will claim. What a sub-RLM
    saw counts for the run above, too: `above` is told.

    Spans may come from a kernel that lies: they are clamped to the body, and what is outside is dropped.
    """

    def __init__(self, input_chars: int, above: Above | None = None) -> None:
        if input_chars < 0:
            raise ValueError(f"input_chars is {input_chars}; a body has at least 0 characters")
        self.input_chars = input_chars
        self._above = above
        self._read = IntervalSet()
        self._scanned = IntervalSet()
        self._sent = IntervalSet()
        self._answered = IntervalSet()
        self._failed = IntervalSet()
        # Kept beside the others, as a union of large sets takes long and a report is made after every cell.
        self._seen = IntervalSet()  # answered or read
        self._tried = IntervalSet()  # answered or failed
        self._sets: Mapping[Noted, tuple[IntervalSet, ...]] = {
            "read": (self._read, self._seen),
            "scanned": (self._scanned,),
            "sent": (self._sent,),
            "answered": (self._answered, self._seen, self._tried),
            "failed": (self._failed, self._tried),
        }
        self._open_chunks: set[Span] = set()
        self._done_chunks: set[Span] = set()
        self._more_chunks = 0

    @property
    def answered_chars(self) -> int:
        """Characters that children answered about."""
        return self._answered.total()

    @property
    def looked(self) -> bool:
        """Whether anything of the body was read, scanned or sent."""
        return bool(len(self._read) or len(self._scanned) or len(self._sent))

    def note_read(self, spans: Iterable[Span]) -> None:
        """Text handed to a cell (the kernel's word)."""
        self.note("read", spans)

    def note_scanned(self, spans: Iterable[Span]) -> None:
        """Text searched by machine (the kernel's word)."""
        self.note("scanned", spans)

    def note_sent(self, spans: Iterable[Span]) -> None:
        """Text sent to a child."""
        self.note("sent", spans)

    def note_answered(self, spans: Iterable[Span]) -> None:
        """Text about which a child answered."""
        self.note("answered", spans)

    def note_failed(self, spans: Iterable[Span]) -> None:
        """Text whose child failed; an answer about it, before or after, outweighs that."""
        self.note("failed", spans)

    def note(self, what: Noted, spans: Iterable[Span]) -> None:
        """Text of which this became."""
        inside = sorted(self._clamped(spans))  # in order they go in several times faster
        for start, end in inside:
            for one in self._sets[what]:
                one.add(start, end)
        if self._above is not None and inside:
            self._above.note(what, inside)

    def note_chunks(self, spans: Iterable[Span]) -> None:
        """The chunks of a batch over `chunk()`, each counted once however often it is asked about. One is
        processed when it was answered in full. Beyond `MAX_SPANS` they are counted, never as processed."""
        for span in self._clamped(spans):
            if span in self._open_chunks or span in self._done_chunks:
                continue
            if len(self._open_chunks) + len(self._done_chunks) >= MAX_SPANS:
                self._more_chunks += 1
            else:
                self._open_chunks.add(span)

    def report(self) -> Coverage:
        """The state now. An empty body is complete."""
        body = Span(0, self.input_chars)
        done = {chunk for chunk in self._open_chunks if self._answered.contains(chunk)}
        self._open_chunks -= done
        self._done_chunks |= done
        uncovered = self.input_chars - self._seen.total()
        return Coverage(
            input_chars=self.input_chars,
            read_chars=self._read.total(),
            scanned_chars=self._scanned.total(),
            sent_chars=self._sent.total(),
            answered_chars=self._answered.total(),
            failed_chars=max(0, self._tried.total() - self._answered.total()),
            chunks_processed=len(self._done_chunks),
            chunks_total=len(self._done_chunks) + len(self._open_chunks) + self._more_chunks,
            complete=uncovered == 0,
            gaps=tuple(islice(self._seen.gaps(body), _GAPS_SHOWN)),
            uncovered_chars=uncovered,
        )

    def _clamped(self, spans: Iterable[Span]) -> Iterator[Span]:
        for start, end in spans:
            inside = Span(max(start, 0), min(end, self.input_chars))
            if inside.start < inside.end:
                yield inside
