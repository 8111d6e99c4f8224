"""What a run needs of a journal: a name, and a log of its events, to append to and to read back."""

from __future__ import annotations

import secrets
from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any, Protocol

from rlm.journal.events import EventKind, JournalEvent
from rlm.results import RunTotals

__all__ = ["PartLog", "ReadOnlyLog", "RunLog", "new_run_id"]

# No letters that look like digits, and no vowels that could form words.
_ALPHABET = "23456789bcdfghjkmnpqrstvwxz"
_LETTERS = 6


class RunLog(Protocol):
    """The log of one run. `StoredLog` writes to a store, `PartLog` to the log of the run it is part of, and
    `ReadOnlyLog` serves the replay of a run that has ended."""

    @property
    def run_id(self) -> str: ...

    @property
    def within(self) -> str:
        """The sub-RLM whose log this is, as `parent/child`; "" for the run itself."""
        ...

    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        """Append one event and return its `seq`, which counts from 1. `totals` update the list of runs in the
        same transaction.

        `payload` must be JSON-safe (else TypeError). The payloads of `finished` and `interrupted` must hold
        `stop_reason`; they may hold the fields of RunTotals, which update the run's row. Nothing can be
        appended after `finished`. A `key` in the payload identifies a model call (`find_reply`).
        Cancelling the caller does not cancel the write. Raises JournalError.
        """
        ...

    def redact(self, value: Any) -> Any:
        """Return a JSON-like value with its secrets blanked, as the log would store it."""
        ...

    async def events(self) -> tuple[JournalEvent, ...]:
        """Return every event appended so far, in order. Writes in flight are awaited first."""
        ...

    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the newest complete reply of a child to the call `key`, made with these settings of its
        model, from any run of the store."""
        ...

    async def check_ownership(self) -> None:
        """Raise JournalError if the run was removed or taken over by another process.

        Called before money is spent. The answer is cached for a fraction of a second.
        """
        ...


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


def new_run_id(now: datetime | None = None) -> str:
    """Return a new name such as `20260131-142501-k3f9xz`.

    The UTC time makes names sort by age. The six random characters keep the names of a batch distinct.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-" + "".join(secrets.choice(_ALPHABET) for _ in range(_LETTERS))
