"""What a run needs of a journal: a log of its events, to append to and to read back."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Protocol

from rlm.journal.events import EventKind, JournalEvent
from rlm.results import RunTotals

__all__ = ["RunLog"]


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
