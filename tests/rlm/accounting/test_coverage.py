"""Test sets of spans, and the coverage of a run."""

from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.accounting import coverage
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.intervals import IntervalSet
from rlm.results import Coverage, Span

SIZE = 60
spans = st.lists(
    st.tuples(st.integers(-5, SIZE + 5), st.integers(-5, SIZE + 5)).map(lambda pair: Span(*pair))
)


def positions(some: list[Span]) -> set[int]:
    return {position for start, end in some for position in range(start, end)}


def runs_of(some: set[int]) -> list[Span]:
    """Return the maximal runs of consecutive integers: the plain model of an interval set."""
    starts = sorted(position for position in some if position - 1 not in some)
    ends = sorted(position + 1 for position in some if position + 1 not in some)
    return [Span(*pair) for pair in zip(starts, ends, strict=True)]


@given(spans, spans, st.tuples(st.integers(-9, 70), st.integers(-9, 70)))
def test_an_interval_set_is_a_set_of_integers(
    first: list[Span], then: list[Span], within: tuple[int, int]
) -> None:
    """Spans are disjoint, sorted and apart. Total, gaps and contains equal those of a set."""
    interval_set, some = IntervalSet(first), [*first, *then]
    interval_set.update(then)
    assert list(interval_set) == runs_of(positions(some))
    assert (len(interval_set), interval_set.total()) == (len(list(interval_set)), len(positions(some)))
    within_span = Span(*within)
    assert list(interval_set.gaps(within_span)) == runs_of(positions([within_span]) - positions(some))
    assert interval_set.contains(within_span) == (positions([within_span]) <= positions(some))


@given(spans, st.integers(1, 5))
def test_a_full_set_holds_less_and_never_more(some: list[Span], limit: int) -> None:
    """Beyond the limit the shortest fragments are dropped. None is invented."""
    interval_set = IntervalSet(some, limit=limit)
    assert len(interval_set) <= limit
    assert positions(list(interval_set)) <= positions(some)
    assert interval_set.total() == len(positions(list(interval_set)))


def test_a_flood_of_fragments_is_bounded_and_claims_nothing(monkeypatch: pytest.MonkeyPatch) -> None:
    """A hostile kernel may report any number of spans."""
    monkeypatch.setattr(coverage, "MAX_SPANS", 1_000)
    monkeypatch.setattr(IntervalSet.__init__, "__kwdefaults__", {"limit": 1_000})
    ledger = CoverageLedger(1_000_000)
    for start in range(10):
        ledger.note("read", (Span(at, at + 1) for at in range(2 * start, 1_000_000, 20)))
        ledger.note_chunks(Span(at, at + 1) for at in range(2 * start, 1_000_000, 20))
    report = ledger.report()
    assert 0 < report.read_chars <= 1_000
    assert (report.uncovered_chars, report.complete) == (1_000_000 - report.read_chars, False)
    assert (report.chunks_processed, report.chunks_total) == (0, 500_000)
    ledger.note("answered", [Span(0, 1_000_000)])
    assert ledger.report().complete
    assert ledger.report().chunks_processed == 1_000


@given(spans, spans, spans, spans, spans)
def test_the_report_agrees_with_plain_sets(
    read: list[Span], scanned: list[Span], sent: list[Span], answered: list[Span], failed: list[Span]
) -> None:
    """Complete ⇔ answered ∪ read = body. Spans outside the body count for nothing."""
    ledger = CoverageLedger(SIZE)
    ledger.note("read", read)
    ledger.note("scanned", scanned)
    ledger.note("sent", sent)
    ledger.note("failed", failed)
    ledger.note("answered", answered)
    body = set(range(SIZE))
    seen = (positions(read) | positions(answered)) & body
    assert ledger.report() == Coverage(
        input_chars=SIZE,
        read_chars=len(positions(read) & body),
        scanned_chars=len(positions(scanned) & body),
        sent_chars=len(positions(sent) & body),
        answered_chars=len(positions(answered) & body),
        failed_chars=len((positions(failed) - positions(answered)) & body),
        complete=seen == body,
        gaps=tuple(runs_of(body - seen)[:20]),
        uncovered_chars=len(body - seen),
    )


def test_an_empty_body_is_complete() -> None:
    ledger = CoverageLedger(0)
    ledger.note("read", [Span(0, 100)])
    assert ledger.report() == Coverage(input_chars=0, complete=True)


def test_only_the_first_gaps_are_listed() -> None:
    ledger = CoverageLedger(1_000)
    ledger.note("answered", (Span(start, start + 1) for start in range(1, 1_000, 2)))
    gaps = ledger.report().gaps
    assert len(gaps) == 20
    assert gaps[0] == Span(0, 1)
    assert gaps[-1] == Span(38, 39)


def test_chunks_are_counted_once_however_often_they_are_asked() -> None:
    """A second try of the failed chunks adds nothing to the total."""
    ledger = CoverageLedger(100)
    chunks = [Span(start, start + 10) for start in range(0, 100, 10)]
    ledger.note_chunks(chunks)
    ledger.note("answered", chunks[:7])
    ledger.note("answered", [Span(70, 75)])
    ledger.note("failed", chunks[7:])
    report = ledger.report()
    assert (report.chunks_processed, report.chunks_total, report.failed_chars) == (7, 10, 25)
    ledger.note_chunks(chunks[7:])
    ledger.note("answered", chunks[7:])
    report = ledger.report()
    assert (report.chunks_processed, report.chunks_total, report.failed_chars) == (10, 10, 0)
    assert report.complete


def test_a_hundred_thousand_spans_in_any_order_are_kept() -> None:
    order = list(range(100_000))
    random.Random(3).shuffle(order)
    ledger = CoverageLedger(1_000_000)
    ledger.note("read", (Span(10 * number, 10 * number + 5) for number in order))
    ledger.note("answered", (Span(10 * number + 5, 10 * number + 9) for number in order))
    report = ledger.report()
    assert (report.read_chars, report.answered_chars) == (500_000, 400_000)
    assert report.gaps[0] == Span(9, 10)
    assert report.uncovered_chars == 100_000
