"""What a cell was handed of the body, and what was searched for it: the ground of a run's coverage."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ..body.body import Span

__all__ = ["MAX_SPANS", "AccessLog", "bounded"]

MAX_SPANS = 40_000
"""Spans told of each sort; beyond that the shortest are forgotten: too little is told, never too much."""


class AccessLog:
    """Two sets of spans: read (text handed to the cell) and scanned (looked through by machine).

    Reading on where the last reading ended costs no memory, and no set ever holds more than twice
    `MAX_SPANS`. Safe to use from threads.
    """

    __slots__ = ("_lock", "_read", "_scanned")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: list[Span] = []
        self._scanned: list[Span] = []

    def read(self, start: int, end: int) -> None:
        """The cell was handed the characters from `start` to `end`."""
        with self._lock:
            self._read = _noted(self._read, start, end)

    def scanned(self, start: int, end: int) -> None:
        """A search went through the characters from `start` to `end`."""
        with self._lock:
            self._scanned = _noted(self._scanned, start, end)

    def drain(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """(read, scanned) since the last drain: sorted, disjoint, at most `MAX_SPANS` each."""
        with self._lock:
            read, scanned = self._read, self._scanned
            self._read, self._scanned = [], []
        return tuple(bounded(read)), tuple(bounded(scanned))


def _noted(spans: list[Span], start: int, end: int) -> list[Span]:
    if end <= start:
        return spans
    if spans:
        last = spans[-1]
        if last.start <= start <= last.end:
            if end > last.end:
                spans[-1] = Span(last.start, end)
            return spans
        if len(spans) >= 2 * MAX_SPANS:
            spans = bounded(spans)
    spans.append(Span(start, end))
    return spans


def bounded(spans: Iterable[Span], most: int = MAX_SPANS) -> list[Span]:
    """Sorted and disjoint, the `most` longest."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    if len(joined) <= most:
        return joined
    return sorted(sorted(joined, key=lambda span: span.start - span.end)[:most])
