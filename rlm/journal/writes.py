"""Writes to a store that are under way, each carried through to its end: half of one is not to be had."""

from __future__ import annotations

import asyncio
from collections.abc import Coroutine, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from rlm.errors import JournalError
from rlm.journal.events import EventKind

__all__ = ["PendingEvent", "WriteQueue"]

_T = TypeVar("_T")


class WriteQueue:
    """Those of one open store. Whoever waits for one may be cancelled; the write is not."""

    def __init__(self) -> None:
        self._pending: set[asyncio.Task[Any]] = set()

    async def finish(self, writing: Coroutine[Any, Any, _T]) -> _T:
        """What the write gives, once it is done."""
        return await asyncio.shield(self.begin(writing))

    def begin(self, writing: Coroutine[Any, Any, _T]) -> asyncio.Task[_T]:
        """A write that `done` waits for, too."""
        task = asyncio.ensure_future(writing)
        self._pending.add(task)
        task.add_done_callback(self._carried_through)
        return task

    async def done(self) -> None:
        """Until all that was begun has ended."""
        await asyncio.gather(*self._pending, return_exceptions=True)

    def _carried_through(self, task: asyncio.Task[Any]) -> None:
        self._pending.discard(task)
        if not task.cancelled():
            # Looked at: its caller may be gone, and whoever writes next is told the same.
            task.exception()


@dataclass(slots=True)
class PendingEvent:
    """An event on its way into the store. `seq` is set when it is there, else `fault`."""

    kind: EventKind
    payload: Mapping[str, Any]
    data: str
    at: float
    seq: int = 0
    fault: JournalError | None = None

    def row(self, run_id: str) -> dict[str, Any]:
        return {
            "run_id": run_id,
            "seq": self.seq,
            "at": self.at,
            "kind": self.kind,
            "data": self.data,
            "key": self.payload.get("key"),
        }

    def end(self) -> dict[str, Any]:
        """What the run's own row says after it."""
        totals = ("stop_reason", "rounds", "sub_calls", "cost_usd")
        return {
            "state": self.kind,
            "finished_at": self.at,
            **{name: self.payload[name] for name in totals if name in self.payload},
        }
