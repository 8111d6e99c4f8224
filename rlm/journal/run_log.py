"""What a run needs of a journal: a name, and a log of its events, to append to and to read back."""

from __future__ import annotations

import secrets
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from copy import copy
from datetime import UTC, datetime
from typing import Any, Self

from rlm.journal.events import EventKind, JournalEvent
from rlm.results import RunTotals

__all__ = ["ReadOnlyLog", "RunLog", "new_run_id"]

# No letters that look like digits, and no vowels that could form words.
_ALPHABET = "23456789bcdfghjkmnpqrstvwxz"
_LETTERS = 6


class RunLog(ABC):
    """The log of the run `run_id`. `within` is the sub-RLM whose log this is, as `parent/child`; "" for the
    run itself. `StoredLog` writes to a store, and `ReadOnlyLog` serves the replay of a run that has ended."""

    def __init__(self, run_id: str) -> None:
        self.run_id = run_id
        self.within = ""

    def part(self, name: str) -> Self:
        """Return the log of the sub-RLM, or of the part of a job, of that name. Its events are appended to
        this log, each with what it is `within`."""
        part = copy(self)
        part.within = f"{self.within}/{name}" if self.within else name
        return part

    @abstractmethod
    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        """Append one event and return its `seq`, which counts from 1. `totals` update the list of runs in the
        same transaction; those of a part do not, because only whole runs are listed.

        `payload` must be JSON-safe (else TypeError). The payloads of `finished` and `interrupted` must hold
        `stop_reason`; they may hold the fields of RunTotals, which update the run's row. Nothing can be
        appended after `finished`. A `key` in the payload identifies a model call (`find_reply`).
        Cancelling the caller does not cancel the write. Raises JournalError.
        """

    @abstractmethod
    def redact(self, value: Any) -> Any:
        """Return a JSON-like value with its secrets blanked, as the log would store it."""

    @abstractmethod
    async def events(self) -> tuple[JournalEvent, ...]:
        """Return every event of the run appended so far, in order. Writes in flight are awaited first."""

    @abstractmethod
    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        """Return the newest complete reply of a child to the call `key`, made with these settings of its
        model, from any run of the store."""

    @abstractmethod
    async def check_ownership(self) -> None:
        """Raise JournalError if the run was removed or taken over by another process.

        Called before money is spent. The answer is cached for a fraction of a second.
        """


class ReadOnlyLog(RunLog):
    """Serves the given events and discards whatever is appended. `events` are those of one run, at least
    one. It redacts nothing, finds no reply of another run, and has no other writer."""

    def __init__(self, events: Sequence[JournalEvent]) -> None:
        super().__init__(events[0].run_id)
        self._events = tuple(events)

    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        return 0

    def redact(self, value: Any) -> Any:
        return value

    async def events(self) -> tuple[JournalEvent, ...]:
        return self._events

    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return None

    async def check_ownership(self) -> None:
        pass


def new_run_id(now: datetime | None = None) -> str:
    """Return a new name such as `20260131-142501-k3f9xz`.

    The UTC time makes names sort by age. The six random characters keep the names of a batch distinct.
    """
    moment = (now or datetime.now(UTC)).astimezone(UTC)
    return f"{moment:%Y%m%d-%H%M%S}-" + "".join(secrets.choice(_ALPHABET) for _ in range(_LETTERS))
