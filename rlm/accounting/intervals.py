"""Keeps sets of positions as sorted spans."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from rlm.sandbox.types import Span

__all__ = ["MAX_SPANS", "IntervalSet"]

MAX_SPANS = 200_000
"""The most spans of one set, some 20 MB: a kernel that lies may report any number of them."""


class IntervalSet:
    """A set of positions, kept as sorted disjoint half-open spans that never touch.

    Empty spans (`end <= start`) are ignored. Beyond `limit` spans the shortest are forgotten: the set then
    holds less than was added, never more.
    """

    __slots__ = ("_ends", "_limit", "_starts", "_total")

    def __init__(self, spans: Iterable[Span] = (), *, limit: int = MAX_SPANS) -> None:
        self._limit = limit
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._total = 0
        self.update(spans)

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self._starts, self._ends)

    def __len__(self) -> int:
        """Return the number of disjoint spans."""
        return len(self._starts)

    def __repr__(self) -> str:
        return f"IntervalSet({len(self)} spans, {self._total} positions)"

    def update(self, spans: Iterable[tuple[int, int]]) -> None:
        """Put every position of each `start <= position < end` in."""
        new = [(start, end) for start, end in spans if start < end]
        if len(new) > len(self):  # then one sort of all is faster than a place for each
            new = sorted([*zip(self._starts, self._ends, strict=True), *new])
            self._starts, self._ends, self._total = [], [], 0
        for start, end in new:
            self._add(start, end)
        if len(self) > self._limit:
            longest = sorted(self, key=lambda span: span.start - span.end)[: self._limit * 3 // 4]
            self._starts, self._ends, self._total = [], [], 0
            self.update(longest)

    def total(self) -> int:
        """Return how many positions are in the set."""
        return self._total

    def contains(self, span: Span) -> bool:
        """Return whether every position of `span` is in the set. True for an empty span."""
        start, end = span
        index = bisect_right(self._starts, start) - 1
        return end <= start or (index >= 0 and self._ends[index] >= end)

    def gaps(self, within: Span) -> Iterator[Span]:
        """Yield the parts of `within` that are not in the set, in order."""
        position, end = within
        for index in range(bisect_right(self._ends, position), len(self)):
            start = self._starts[index]
            if start >= end:
                break
            if start > position:
                yield Span(position, start)
            position = self._ends[index]
        if position < end:
            yield Span(position, end)

    def _add(self, start: int, end: int) -> None:
        # Starts and ends are both sorted: the spans that overlap or touch the new one are those from the
        # first that ends at or behind its start to the last that starts at or before its end.
        first, last = bisect_left(self._ends, start), bisect_right(self._starts, end)
        if first < last:
            start, end = min(start, self._starts[first]), max(end, self._ends[last - 1])
            self._total -= sum(self._ends[first:last]) - sum(self._starts[first:last])
        self._total += end - start
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
