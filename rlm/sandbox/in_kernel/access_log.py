"""Records which parts of the body a cell read and scanned. The run's coverage is based on it."""

from __future__ import annotations

import threading
from collections.abc import Iterable

from ..text.body import Span

__all__ = ["MAX_SPANS", "AccessLog", "bounded"]

MAX_SPANS = 40_000
"""Spans reported of each kind. Beyond it the shortest are dropped: the report is too low, never too high."""


class AccessLog:
    """Two sets of spans: read (text given to the cell) and scanned (searched by machine).

    Reading on from the end of the last span costs no memory. A set never holds more than twice `MAX_SPANS`.
    Safe to use from several threads.
    """

    __slots__ = ("_lock", "_read", "_scanned")

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._read: list[Span] = []
        self._scanned: list[Span] = []

    def read(self, start: int, end: int) -> None:
        """Record that the cell got the characters from `start` to `end`."""
        with self._lock:
            self._read = _add_span(self._read, start, end)

    def scanned(self, start: int, end: int) -> None:
        """Record that a search went through the characters from `start` to `end`."""
        with self._lock:
            self._scanned = _add_span(self._scanned, start, end)

    def drain(self) -> tuple[tuple[Span, ...], tuple[Span, ...]]:
        """Return (read, scanned) since the last drain: sorted, disjoint, at most `MAX_SPANS` each."""
        with self._lock:
            read, scanned = self._read, self._scanned
            self._read, self._scanned = [], []
        return tuple(bounded(read)), tuple(bounded(scanned))


def _add_span(spans: list[Span], start: int, end: int) -> list[Span]:
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


def bounded(spans: Iterable[Span], max_spans: int = MAX_SPANS) -> list[Span]:
    """Return the `max_spans` longest spans, merged and sorted."""
    joined: list[Span] = []
    for span in sorted(spans):
        if joined and span.start <= joined[-1].end:
            joined[-1] = Span(joined[-1].start, max(joined[-1].end, span.end))
        else:
            joined.append(span)
    if len(joined) <= max_spans:
        return joined
    return sorted(sorted(joined, key=lambda span: span.start - span.end)[:max_spans])
