"""The log of a sub-RLM. Its events go to the log of the whole run, each with the sub-RLM's name."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from rlm.journal.events import EventKind, JournalEvent
from rlm.journal.run_log import RunLog
from rlm.results import RunTotals

__all__ = ["PartLog"]


class PartLog:
    """Adds `within` to every event it appends: the parent's name, a slash, and `name`."""

    def __init__(self, log: RunLog, name: str) -> None:
        self._whole: RunLog = log._whole if isinstance(log, PartLog) else log
        self._within = f"{log.within}/{name}" if log.within else name

    @property
    def run_id(self) -> str:
        return self._whole.run_id

    @property
    def within(self) -> str:
        return self._within

    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        """Append an event, without `totals`: only top-level runs are listed."""
        return await self._whole.append(kind, {**payload, "within": self._within})

    def redact(self, value: Any) -> Any:
        return self._whole.redact(value)

    async def events(self) -> tuple[JournalEvent, ...]:
        return await self._whole.events()

    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return await self._whole.find_reply(key, settings)

    async def check_ownership(self) -> None:
        await self._whole.check_ownership()
