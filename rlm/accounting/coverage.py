"""Records which parts of the body a run has seen."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Protocol

from rlm.accounting.intervals import MAX_SPANS, IntervalSet
from rlm.playback.recording import Noted, Recording
from rlm.results import Coverage
from rlm.sandbox.types import Span

__all__ = ["Above", "CoverageLedger"]

_GAPS_SHOWN = 20
_MAX_SAID = 4_000_000
"""Characters of replies about pages that are kept."""
_WORD = re.compile(r"\w+")


class Above(Protocol):
    """The ledger of the run above. Spans that a sub-RLM notes are noted there, too."""

    def note(self, what: Noted, spans: Sequence[Span]) -> None: ...


class CoverageLedger:
    """Records what one run saw of a body of `input_chars` characters. Spans of a sub-RLM are passed on to
    `above`.

    Spans may come from a kernel that lies: they are clamped to the body.
    """

    def __init__(self, input_chars: int, above: Above | None = None) -> None:
        self.input_chars = input_chars
        self._above = above
        self._read = IntervalSet()
        self._scanned = IntervalSet()
        self._sent = IntervalSet()
        self._answered = IntervalSet()
        self._failed = IntervalSet()
        # Unions are kept up to date: making one takes long, and a report is made after every cell.
        self._seen = IntervalSet()  # answered or read
        self._tried = IntervalSet()  # answered or failed
        self._sets: Mapping[Noted, tuple[IntervalSet, ...]] = {
            "read": (self._read, self._seen),
            "scanned": (self._scanned,),
            "sent": (self._sent,),
            "answered": (self._answered, self._seen, self._tried),
            "failed": (self._failed, self._tried),
            "looked": (),
        }
        self._chunks: set[Span] = set()
        self._more_chunks = 0
        self._pages: set[Span] = set()
        # The words of the children that saw these pages.
        self._said: dict[tuple[str, Span], None] = {}
        self._said_chars = 0

    @property
    def answered_chars(self) -> int:
        """Return how many characters children have answered about."""
        return self._answered.total()

    @property
    def looked(self) -> bool:
        """Return whether any of the body was read, scanned or sent."""
        return bool(len(self._read) or len(self._scanned) or len(self._sent))

    def has_seen(self, span: Span) -> bool:
        """Return whether a child saw every page of which the span holds a part."""
        seen = [page for page in self._pages if page.start < span.end and span.start < page.end]
        return bool(seen) and min(seen).start <= span.start and max(page.end for page in seen) >= span.end

    def read_on(self, quote: str) -> Span | None:
        """Return the span of the pages on which a child read these words, or None. No text proves it."""
        wanted = _words(quote)
        found = (span for words, span in self._said if wanted in words)
        return next(found, None) if wanted.strip() else None

    def note(self, what: Noted, spans: Iterable[Span], said: str = "") -> None:
        """Note spans in the sets of `what`, here and above. `said` is the reply of a child that saw them as
        pages."""
        inside = sorted(self._clamped(spans))
        if what == "looked":
            self._pages.update(inside[: max(0, MAX_SPANS - len(self._pages))])
            self._keep(said, inside)
        for one in self._sets[what]:
            one.update(inside)
        if self._above is not None and inside:
            self._above.note(what, inside)

    def restore(self, recording: Recording) -> None:
        """Note what a recorded run saw of this body."""
        self.note_chunks(recording.chunks)
        for what, spans in recording.seen.items():
            self.note(what, spans)
        for pages, said in recording.pages:
            self._keep(said, pages)

    def note_chunks(self, spans: Iterable[Span]) -> None:
        """Note the chunks of a batch over `chunk()`. Each is counted once, and is processed when all of it
        was answered. Chunks beyond `MAX_SPANS` are counted, but never as processed."""
        for span in self._clamped(spans):
            if len(self._chunks) < MAX_SPANS:
                self._chunks.add(span)
            elif span not in self._chunks:
                self._more_chunks += 1

    def report(self) -> Coverage:
        """Return the coverage so far. An empty body is complete."""
        body = Span(0, self.input_chars)
        uncovered = self.input_chars - self._seen.total()
        return Coverage(
            input_chars=self.input_chars,
            read_chars=self._read.total(),
            scanned_chars=self._scanned.total(),
            sent_chars=self._sent.total(),
            answered_chars=self._answered.total(),
            failed_chars=max(0, self._tried.total() - self._answered.total()),
            chunks_processed=sum(map(self._answered.contains, self._chunks)),
            chunks_total=len(self._chunks) + self._more_chunks,
            complete=uncovered == 0,
            gaps=tuple(islice(self._seen.gaps(body), _GAPS_SHOWN)),
            uncovered_chars=uncovered,
            pages_looked=len(self._pages),
        )

    def _keep(self, said: str, pages: Sequence[Span]) -> None:
        words = _words(said)
        self._said_chars += len(words)
        if pages and self._said_chars <= _MAX_SAID:
            whole = Span(min(page.start for page in pages), max(page.end for page in pages))
            self._said[words, whole] = None

    def _clamped(self, spans: Iterable[Span]) -> Iterator[Span]:
        for start, end in spans:
            inside = Span(max(start, 0), min(end, self.input_chars))
            if inside.start < inside.end:
                yield inside


def _words(text: str) -> str:
    return f" {' '.join(_WORD.findall(text.casefold()))} "
