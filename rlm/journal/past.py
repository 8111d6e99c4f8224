"""The log of a run that has ended and is gone through again: read, not written to."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm.journal.events import EventKind, JournalEvent
from rlm.journal.store import Journal, RunLog

__all__ = ["ReadOnlyLog"]


class ReadOnlyLog(RunLog):
    """Takes whatever is appended and forgets it."""

    def __init__(self, journal: Journal, run_id: str, events: tuple[JournalEvent, ...]) -> None:
        super().__init__(journal, run_id, "")
        self._events = events

    async def append(self, kind: EventKind, payload: Mapping[str, Any]) -> int:
        return 0

    async def events(self) -> tuple[JournalEvent, ...]:
        return self._events

    async def remembered(self, key: str) -> Mapping[str, Any] | None:
        return None

    async def check_mine(self) -> None:
        """Nobody writes to it."""

    async def tally(self, *, rounds: int, sub_calls: int, cost_usd: float | None) -> None:
        """The list of runs knows it already."""
