"""Measure the coverage ledger with many spans."""

from __future__ import annotations

import random
from collections.abc import Iterator

from benchmarks.gigabyte.handle import best
from benchmarks.gigabyte.row import Row
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.intervals import IntervalSet
from rlm.results import Span

_CHARS = 10**9
_SPANS = 100_000


def rows() -> Iterator[Row]:
    """Add 100,000 spans in random order: one by one, and in one report of a cell."""
    chooser = random.Random(6)
    spans = [Span(at, at + 500) for at in (chooser.randrange(_CHARS) for _ in range(_SPANS))]

    def one_by_one() -> int:
        held = IntervalSet()
        for span in spans:
            held.update([span])
        return len(held)

    seconds, length = best(one_by_one)
    yield Row(f"coverage: {_SPANS:,} spans in random order", seconds, "s", 0.5, f"{length:,} held")
    ledger = CoverageLedger(_CHARS)
    seconds, _ = best(lambda: ledger.note("read", spans), 1)
    yield Row("coverage: the same, noted at once as read", seconds, "s", 0.5)
    seconds, _ = best(ledger.report)
    yield Row("coverage: a report of them", seconds * 1_000, "ms")
