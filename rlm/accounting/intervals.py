"""Keeps sets of positions as sorted spans."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from rlm.sandbox.types import Span

__all__ = ["MAX_SPANS", "IntervalSet"]

MAX_SPANS = 200_000
"""The most spans of one set, some 20 MB: a kernel that lies may report any number of them."""


_BLOCK = 512


class IntervalSet:
    """A set of positions, kept as sorted disjoint half-open spans that never touch.

    Spans are kept in blocks of bounded size: adding one takes two binary searches and one splice of a short
    list, in any order. Empty spans (`end <= start`) are ignored. Beyond `limit` spans the shortest are
    forgotten: the set then holds less than was added, never more.
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
        """Return the number of disjoint spans."""
        return self._length

    def __repr__(self) -> str:
        return f"IntervalSet({len(self)} spans, {self._total} positions)"

    def add(self, start: int, end: int) -> None:
        """Put every position of `start <= position < end` in."""
        if end <= start:
            return
        # The spans are disjoint and sorted, in blocks of at most 2 * _BLOCK, so that inserting one moves a
        # few hundred numbers and not millions. Spans that overlap or touch the new one are merged with it:
        # from `first` in block `low` to before `last` in block `high`. Starts and ends are both sorted, so
        # bisecting the ends for `start` finds the first to merge, and bisecting the starts for `end` the
        # last. If the merged spans cross blocks, the new span goes into `low`, and the blocks that end up
        # empty are removed.
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
        """Return how many positions are in the set."""
        return self._total

    def contains(self, span: Span) -> bool:
        """Return whether every position of `span` is in the set. True for an empty span."""
        start, end = span
        if end <= start:
            return True
        block = max(0, bisect_right(self._firsts, start) - 1)
        index = bisect_right(self._starts[block], start) - 1
        return index >= 0 and self._ends[block][index] >= end

    def gaps(self, within: Span) -> Iterator[Span]:
        """Yield the parts of `within` that are not in the set, in order."""
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
        """Replace the spans from `first` to before `last` of a block by these, one at most."""
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
        """Keep the longest spans, three quarters of the limit."""
        kept = sorted(self, key=lambda span: span.start - span.end)[: self._limit * 3 // 4]
        self._clear()
        for start, end in sorted(kept):
            self.add(start, end)
