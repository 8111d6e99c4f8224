"""How much of the body was seen: sets of spans, and the ledger of one run that keeps five of them."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterable, Iterator

from rlm.types import Coverage
from sandbox.types import Span

__all__ = ["CoverageLedger", "IntervalSet"]

_GAPS_SHOWN = 20


class IntervalSet:
    """A set of positions, kept as sorted disjoint half-open spans that never touch.

    Adding is a binary search and one splice. Empty spans (`end <= start`) hold nothing and are ignored.
    """

    __slots__ = ("_ends", "_starts", "_total")

    def __init__(self, spans: Iterable[Span] = ()) -> None:
        self._starts: list[int] = []
        self._ends: list[int] = []
        self._total = 0
        for start, end in spans:
            self.add(start, end)

    def __iter__(self) -> Iterator[Span]:
        return map(Span, self._starts, self._ends)

    def __len__(self) -> int:
        """How many disjoint spans there are."""
        return len(self._starts)

    def __repr__(self) -> str:
        return f"IntervalSet({len(self)} spans, {self._total} positions)"

    def add(self, start: int, end: int) -> None:
        """Put every position of `start <= position < end` in."""
        if end <= start:
            return
        # every span that overlaps or touches the new one melts into it
        first = bisect_left(self._ends, start)
        last = bisect_right(self._starts, end)
        if first < last:
            start = min(start, self._starts[first])
            end = max(end, self._ends[last - 1])
            self._total -= sum(self._ends[first:last]) - sum(self._starts[first:last])
        self._starts[first:last] = [start]
        self._ends[first:last] = [end]
        self._total += end - start

    def total(self) -> int:
        """How many positions are in."""
        return self._total

    def union(self, other: IntervalSet) -> IntervalSet:
        """The positions that are in either, as a new set."""
        return IntervalSet(sorted([*self, *other]))  # in order, every span goes in at the end: linear

    def contains(self, span: Span) -> bool:
        """Whether every position of `span` is in; true of an empty span."""
        start, end = span
        if end <= start:
            return True
        index = bisect_right(self._starts, start) - 1
        return index >= 0 and self._ends[index] >= end

    def gaps(self, within: Span) -> Iterator[Span]:
        """The stretches of `within` that are not in, in order, lazily."""
        position, end = within
        index = bisect_right(self._ends, position)
        while position < end:
            start = self._starts[index] if index < len(self._starts) else end
            if start > position:
                yield Span(position, min(start, end))
            position = self._ends[index] if index < len(self._ends) else end
            index += 1


class CoverageLedger:
    """What one run saw of a body of `input_chars` characters, whatever its answer will claim.

    Spans may come from a kernel that lies: they are clamped to the body, and what is outside is dropped.
    """

    def __init__(self, input_chars: int) -> None:
        if input_chars < 0:
            raise ValueError(f"input_chars is {input_chars}; a body has at least 0 characters")
        self.input_chars = input_chars
        self._read = IntervalSet()
        self._scanned = IntervalSet()
        self._sent = IntervalSet()
        self._answered = IntervalSet()
        self._failed = IntervalSet()
        self._chunks: set[Span] = set()

    @property
    def answered_chars(self) -> int:
        """Characters that children answered about."""
        return self._answered.total()

    def note_read(self, spans: Iterable[Span]) -> None:
        """Text handed to a cell (the kernel's word)."""
        self._note(self._read, spans)

    def note_scanned(self, spans: Iterable[Span]) -> None:
        """Text searched by machine (the kernel's word)."""
        self._note(self._scanned, spans)

    def note_sent(self, spans: Iterable[Span]) -> None:
        """Text sent to a child."""
        self._note(self._sent, spans)

    def note_answered(self, spans: Iterable[Span]) -> None:
        """Text about which a child answered."""
        self._note(self._answered, spans)

    def note_failed(self, spans: Iterable[Span]) -> None:
        """Text whose child failed; an answer about it, before or after, outweighs that."""
        self._note(self._failed, spans)

    def note_chunks(self, spans: Iterable[Span]) -> None:
        """The chunks of a batch over `chunk()`, each counted once however often it is asked about. One is
        processed when it was answered in full."""
        self._chunks.update(self._clamped(spans))

    def report(self) -> Coverage:
        """The state now. An empty body is complete."""
        body = Span(0, self.input_chars)
        seen = self._answered.union(self._read)
        gaps: list[Span] = []
        for gap in seen.gaps(body):
            if len(gaps) == _GAPS_SHOWN:
                break
            gaps.append(gap)
        return Coverage(
            input_chars=self.input_chars,
            read_chars=self._read.total(),
            scanned_chars=self._scanned.total(),
            sent_chars=self._sent.total(),
            answered_chars=self._answered.total(),
            failed_chars=self._failed.union(self._answered).total() - self._answered.total(),
            chunks_processed=sum(map(self._answered.contains, self._chunks)),
            chunks_total=len(self._chunks),
            complete=seen.total() == self.input_chars,
            gaps=tuple(gaps),
        )

    def _note(self, into: IntervalSet, spans: Iterable[Span]) -> None:
        for start, end in self._clamped(spans):
            into.add(start, end)

    def _clamped(self, spans: Iterable[Span]) -> Iterator[Span]:
        for start, end in spans:
            inside = Span(max(start, 0), min(end, self.input_chars))
            if inside.start < inside.end:
                yield inside
