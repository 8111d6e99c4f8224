"""Holds the input of a run: a whole context, or for a sub-RLM a part of its parent's.

The spans of a sub-RLM are mapped back to the body of its parent.
"""

from __future__ import annotations

import asyncio
import shutil
import sys
from collections.abc import AsyncIterator, Iterable, Iterator, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.intervals import IntervalSet
from rlm.errors import UsageError
from rlm.playback.recording import MappedSpan, Noted, spans_above
from rlm.sandbox.context.writer import ContextFile, ContextFileWriter
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import ChildSlice, Span

__all__ = ["ParentCoverage", "RunInput"]

_MAX_COPIED_CHARS = 16_000_000
"""Characters of a source that is copied. At most 4 sub-RLMs of a depth run at a time, so that their copies
take some 64 MB of the disk."""
_NAME_CHARS = 200
"""Characters of a document's name, which each piece of the document repeats."""


@dataclass(frozen=True, slots=True)
class RunInput:
    """The input of one run. `window` is the part of `context` that the run sees, None for all of it. `body`
    is that part, open. `stretches` map its characters to the body of the run above, in order."""

    context: ContextFile
    body: Body
    window: Span | None = None
    stretches: tuple[MappedSpan, ...] = ()

    def above(self, spans: Iterable[Span]) -> Iterator[Span]:
        """Return spans of `body` in the body of the run above. Leave out text that is not from there."""
        return spans_above(self.stretches, spans)

    @asynccontextmanager
    async def part(self, source: ChildSlice | None, folder: Path) -> AsyncIterator[RunInput]:
        """Yield the input of a sub-RLM, and close it afterwards.

        A source of a single span shares these files. Any other source becomes a text of its own in `folder`,
        which is removed afterwards. A text that the spans of a source hold more than once is copied once.
        Raises UsageError if the text would be too long.
        """
        pieces = () if source is None else _without_repeats(source.pieces)
        if len(pieces) == 1 and isinstance(pieces[0], Span):
            shared = self._window(pieces[0])
            with shared.body:
                yield shared
            return
        chars = sum(len(one) if isinstance(one, str) else one.end - one.start for one in pieces)
        if chars > _MAX_COPIED_CHARS:
            raise UsageError(
                f"a source of several pieces is copied, and {chars:,} characters are more than the "
                f"{_MAX_COPIED_CHARS:,} that may be. Give one span, which is not copied, or fewer pieces"
            )
        write = partial(_write_pieces, pieces, self.body, folder)
        writing = asyncio.ensure_future(run_in_daemon_thread(write, name="rlm-source"))
        try:
            # A thread cannot be cancelled: the folder is removed when it has ended.
            written, stretches = await asyncio.shield(writing)
            with written.open() as body:
                yield RunInput(written, body, None, stretches)
        finally:
            await asyncio.wait([writing])
            remove = partial(shutil.rmtree, folder, ignore_errors=True)
            await run_in_daemon_thread(remove, name="rlm-remove")

    def _window(self, span: Span) -> RunInput:
        start, end = span
        first = 0 if self.window is None else self.window.start
        stretches = (MappedSpan(0, start, end - start),)
        window = Span(first + start, first + end)
        return RunInput(self.context, self.body.window(start, end), window, stretches)


class ParentCoverage:
    """Notes in the parent's ledger which text a sub-RLM saw."""

    def __init__(self, ledger: CoverageLedger, given: RunInput) -> None:
        self._ledger = ledger
        self._input = given

    def note(self, what: Noted, spans: Sequence[Span]) -> None:
        # Merged first: a cell may report the whole of its input many thousand times.
        self._ledger.note(what, self._input.above(IntervalSet(spans)))


def _without_repeats(pieces: Sequence[Span | str]) -> tuple[Span | str, ...]:
    """Return the pieces without the characters that earlier spans hold, and without equal texts."""
    seen = IntervalSet(limit=sys.maxsize)
    new: dict[Span | str, None] = {}
    for piece in pieces:
        if isinstance(piece, str):
            new[piece] = None
            continue
        for gap in list(seen.gaps(piece)):
            new[gap] = None
        seen.update([piece])
    return tuple(new)


def _write_pieces(
    pieces: Sequence[Span | str], body: Body, folder: Path
) -> tuple[ContextFile, tuple[MappedSpan, ...]]:
    """Write each piece as a document. A piece of the parent's body keeps the name of its document."""
    with ContextFileWriter(folder) as writer:
        for number, piece in enumerate(pieces, 1):
            if isinstance(piece, str):
                writer.begin_document(f"text {number}", "text")
                writer.write(piece)
            else:
                document = body.document_at(piece.start)
                name, kind = (document.name, document.kind) if document else ("input", "text")
                writer.begin_document(
                    f"{name[-_NAME_CHARS:]} [{piece.start}-{piece.end}]",
                    kind,
                    headings_indexed=document is not None and document.headings_indexed,
                )
                writer.write(body.text(*piece))
            writer.end_document()
        written = writer.finish()
    return written, tuple(
        MappedSpan(document.start, piece.start, piece.end - piece.start)
        for piece, document in zip(pieces, written.documents, strict=True)
        if isinstance(piece, Span)
    )
