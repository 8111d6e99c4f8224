"""The log of a sub-RLM: a part of its run's own, which says of each event where in the tree it happened."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm.journal.events import EventKind, JournalEvent
from rlm.journal.store import RunLog

__all__ = ["PartLog"]


class PartLog(RunLog):
    """Appends to the log of the whole run. `within` names the sub-RLM: its parent's name, a slash, its
    own."""

    def __init__(self, log: RunLog, name: str) -> None:
        self._whole: RunLog = log._whole if isinstance(log, PartLog) else log
        self.run_id = log.run_id
        self.within = f"{log.within}/{name}" if log.within else name
        self._journal = log._journal

    @property
    def finished(self) -> bool:
        return self._whole.finished

    async def append(self, kind: EventKind, payload: Mapping[str, Any]) -> int:
        return await self._whole.append(kind, {**payload, "within": self.within})

    async def events(self) -> tuple[JournalEvent, ...]:
        return await self._whole.events()

    async def check_mine(self) -> None:
        await self._whole.check_mine()

    async def tally(self, *, rounds: int, sub_calls: int, cost_usd: float | None) -> None:
        """Nothing: the list of runs shows whole ones."""
