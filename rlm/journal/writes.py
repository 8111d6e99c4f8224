"""Writes to a store that are in flight. They are shielded from cancellation."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import asdict, fields
from typing import Any, TypeVar

from rlm.errors import JournalError
from rlm.journal.events import EventKind
from rlm.lazy_dataclass import dataclass
from rlm.results import RunTotals

__all__ = ["LAST_KINDS", "PendingEvent", "WriteQueue"]

LAST_KINDS = frozenset({"finished", "interrupted"})
"""Kinds of events that update the state of their run."""

_T = TypeVar("_T")


class WriteQueue:
    """The writes of one open store. Cancelling a task that waits for a write does not cancel the write."""

    def __init__(self) -> None:
        self._pending: set[asyncio.Task[Any]] = set()

    async def finish(self, writing: Coroutine[Any, Any, _T]) -> _T:
        """Run a write to its end and return its result."""
        return await asyncio.shield(self.start(writing))

    def start(self, writing: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """Start a write that `drain` waits for."""
        task = asyncio.ensure_future(writing)
        self._pending.add(task)
        task.add_done_callback(self._discard)
        return task

    async def drain(self) -> None:
        """Wait until every write started so far has ended."""
        await asyncio.gather(*self._pending, return_exceptions=True)

    def _discard(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            # Retrieve the exception, or asyncio logs it: a cancelled caller never will. The next write of the
            # store fails for the same reason and reports it.
            task.exception()


@dataclass(slots=True)
class PendingEvent:
    """An event that is not committed yet. `seq` is set by the commit, `fault` by its failure."""

    kind: EventKind
    payload: Mapping[str, Any]
    data: str
    at: float
    totals: RunTotals | None = None
    seq: int = 0
    fault: JournalError | None = None

    def to_row(self, run_id: str) -> dict[str, Any]:
        """Return the row of the table `events`."""
        return {
            "run_id": run_id,
            "seq": self.seq,
            "at": self.at,
            "kind": self.kind,
            "data": self.data,
            "key": self.payload.get("key"),
        }

    def run_changes(self) -> dict[str, Any]:
        """Return what the event changes in the run's row: its totals, and its end for LAST_KINDS."""
        totals = {} if self.totals is None else asdict(self.totals)
        if self.kind not in LAST_KINDS:
            return totals
        names = ("stop_reason", *(field.name for field in fields(RunTotals)))
        return {
            **totals,
            "state": self.kind,
            "finished_at": self.at,
            **{name: self.payload[name] for name in names if name in self.payload},
        }
