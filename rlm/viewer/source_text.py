"""The input of a run, for those who look at the place that an answer cites."""

from __future__ import annotations

import asyncio
import re
import shutil
import tempfile
from collections import OrderedDict
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlm.documents.workspace import Workspace
from rlm.errors import RLMError
from rlm.journal import Journal
from rlm.journal.events import RunSummary
from rlm.sandbox.text.body import Body, BodyError

__all__ = ["SourceTexts", "place"]

_AROUND = 1_500
_SHOWN = 20_000
_OPEN = 4
_NAME = re.compile(r"[0-9a-f]{64}")
"""What a journal calls an input. A journal of others may say anything."""


class SourceTexts:
    """Opens the stored inputs of runs in a private folder, the last four at a time."""

    def __init__(self, journal: Journal) -> None:
        self._journal = journal
        self._workspace: Workspace | None = None
        self._open: OrderedDict[str, Body] = OrderedDict()
        self._order = asyncio.Lock()

    async def body(self, run: RunSummary) -> Body | None:
        """Return the input of a run, or None if the journal does not hold it."""
        if run.input is None or not _NAME.fullmatch(run.input):
            return None
        async with self._order:
            if run.input in self._open:
                self._open.move_to_end(run.input)
                return self._open[run.input]
            body = await self._restore(run)
            if body is not None:
                self._open[run.input] = body
                while len(self._open) > _OPEN:
                    self._open.popitem(last=False)[1].close()
            return body

    async def _restore(self, run: RunSummary) -> Body | None:
        if self._workspace is None:
            # A later run removes it if this process is killed.
            self._workspace = await asyncio.to_thread(Workspace().__enter__)
        top = Path(await asyncio.to_thread(tempfile.mkdtemp, dir=self._workspace.folder))
        try:
            with suppress(RLMError, BodyError):
                if await self._journal.restore_input(run.run_id, top / "input"):
                    # Its files stay mapped, and need no name.
                    return await asyncio.to_thread(Body.open, top / "input")
        finally:
            await asyncio.to_thread(shutil.rmtree, top, ignore_errors=True)
        return None

    async def aclose(self) -> None:
        """Close the texts and remove the folder."""
        while self._open:
            self._open.popitem()[1].close()
        if self._workspace is not None:
            await asyncio.to_thread(self._workspace.__exit__, None, None, None)


def place(body: Body, start: int, end: int) -> dict[str, Any] | None:
    """Return the text from `start` to `end` (20,000 characters at most) with what is around it in its
    document, from line to line. None if it is not in the body."""
    document = body.document_at(start)
    if document is None or not 0 <= start < body.chars or end < start:
        return None
    whole_end = min(end, body.chars)
    end = min(whole_end, start + _SHOWN)
    low = max(document.start, start - _AROUND)
    high = max(end, min(document.end, end + _AROUND))
    before, after = body.text(low, start), body.text(end, high)
    if low > document.start:
        before = before.partition("\n")[2] if "\n" in before else before
    if high < document.end and "\n" in after:
        after = after.rpartition("\n")[0]
    found = body.place(start)
    first = start - len(before)
    return {
        "document": document.name,
        "kind": document.kind,
        "line": body.line_of(first) - body.line_of(document.start) + 1,
        "page": None if found is None else found.page,
        "message": None if found is None else found.message,
        "headings": [] if found is None else list(found.heading_path),
        "start": start,
        "end": whole_end,
        "before": before,
        "text": body.text(start, end),
        "after": after,
        "is_start": first <= document.start,
        "is_end": end + len(after) >= document.end,
        "left_out": whole_end - end,
    }
