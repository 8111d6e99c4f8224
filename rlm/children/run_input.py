"""Holds the input of a run: a whole context, or for a sub-RLM a part of its parent's.

The spans of a sub-RLM are mapped back to the body of its parent.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rlm.accounting.coverage import CoverageLedger, Noted
from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import ChildSlice, Span

__all__ = ["ParentCoverage", "RunInput", "SpanMap"]


@dataclass(frozen=True, slots=True)
class _MappedSpan:
    """Maps `length` characters from `start` of a sub-RLM's body to those from `origin` of its parent's."""

    start: int
    origin: int
    length: int


class SpanMap:
    """Maps the characters of a sub-RLM's body to those of its parent's."""

    def __init__(self, stretches: Sequence[_MappedSpan]) -> None:
        self._stretches = tuple(stretches)

    def above(self, spans: Sequence[Span]) -> Iterator[Span]:
        """Return the same characters in the parent's body. Text that is not from there is left out."""
        for start, end in spans:
            for stretch in self._stretches:
                low = max(start, stretch.start)
                high = min(end, stretch.start + stretch.length)
                if low < high:
                    shift = stretch.origin - stretch.start
                    yield Span(low + shift, high + shift)


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of one run. `window` is the part of `context` that the run sees, None for all of it. `body`
    is that part, open. `stretches` maps its characters to the body of the run above."""

    context: ContextFile
    body: Body
    window: Span | None = None
    stretches: SpanMap = field(default_factory=lambda: SpanMap(()))

    async def part(self, source: ChildSlice | None, folder: Path) -> RunInput:
        """Return the input of a sub-RLM. A single span shares these files; any other source is written to
        `folder`. The caller closes its `body`."""
        pieces = () if source is None else source.pieces
        if len(pieces) == 1 and isinstance(pieces[0], Span):
            start, end = pieces[0]
            first = 0 if self.window is None else self.window.start
            stretches = SpanMap([_MappedSpan(0, start, end - start)])
            window = Span(first + start, first + end)
            return RunInput(self.context, self.body.window(start, end), window, stretches)
        written, stretches = await asyncio.to_thread(_write_pieces, pieces, self.body, folder)
        return RunInput(written, written.open(), None, stretches)


class ParentCoverage:
    """Notes in the parent's ledger which text a sub-RLM saw."""

    def __init__(self, ledger: CoverageLedger, stretches: SpanMap) -> None:
        self._ledger = ledger
        self._stretches = stretches

    def note(self, what: Noted, spans: Sequence[Span]) -> None:
        self._ledger.note(what, self._stretches.above(spans))


def _write_pieces(pieces: Sequence[Span | str], body: Body, folder: Path) -> tuple[ContextFile, SpanMap]:
    """Write each piece as a document. A piece of the parent's body keeps the name of its document."""
    stretches: list[_MappedSpan] = []
    with ContextFileWriter(folder) as writer:
        for number, piece in enumerate(pieces, 1):
            if isinstance(piece, str):
                writer.begin_document(f"text {number}", "text")
                writer.write(piece)
            else:
                document = body.document_at(piece.start)
                name, kind = (document.name, document.kind) if document else ("input", "text")
                writer.begin_document(
                    f"{name} [{piece.start}-{piece.end}]",
                    kind,
                    headings_indexed=document is not None and document.headings_indexed,
                )
                for start in range(piece.start, piece.end, _STEP):
                    writer.write(body.text(start, min(start + _STEP, piece.end)))
            writer.end_document()
        written = writer.finish()
    for piece, document in zip(pieces, written.documents, strict=True):
        if not isinstance(piece, str):
            stretches.append(_MappedSpan(document.start, piece.start, piece.end - piece.start))
    return written, SpanMap(stretches)


_STEP = 1_000_000
"""Characters that are held in memory at a time."""
