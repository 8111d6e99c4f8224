"""The log of a run that has ended. It is read during replay and never written."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from rlm.journal.events import EventKind, JournalEvent
from rlm.results import RunTotals

__all__ = ["ReadOnlyLog"]


class ReadOnlyLog:
    """Serves the given events and discards whatever is appended. `events` are those of one run, at least
    one."""

    within = ""

    def __init__(self, events: Sequence[JournalEvent]) -> None:
        self._events = tuple(events)

    @property
    def run_id(self) -> str:
        return self._events[0].run_id

    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        """Discard the event."""
        return 0

    def redact(self, value: Any) -> Any:
        """Return the value unchanged: nothing of it is stored."""
        return value

    async def events(self) -> tuple[JournalEvent, ...]:
        return self._events

    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return None: a replay takes its replies from its own events."""
        return None

    async def check_ownership(self) -> None:
        """Do nothing: a run that has ended has no writer."""
