"""The log of a run that is being written: its events, committed in order by one owner."""

from __future__ import annotations

import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from rlm.database.store import Row, Store, Transaction
from rlm.errors import JournalError
from rlm.journal.events import EVENT_KINDS, EventKind, JournalEvent
from rlm.journal.redaction import Redaction
from rlm.journal.stored_events import encode, find_reply, read_events
from rlm.results import RunTotals

__all__ = ["StoredLog"]

_CONFIRMED_SECONDS = 0.25
"""How long `check_ownership` trusts its last answer: the children of a batch do not all ask the store."""
_LAST_KINDS = frozenset({"finished", "interrupted"})
"""Kinds of events that update the state of their run."""
_RUN = (
    "SELECT process, state, (SELECT max(seq) FROM events WHERE run_id = :run_id) AS last_seq "
    "FROM runs WHERE run_id = :run_id"
)
_EVENT = "SELECT * FROM events WHERE run_id = :run_id AND seq = :seq"


class StoredLog:
    """Appends events in order, whatever tasks append them. An event that was appended is committed, and
    survives a kill of the process. `owner` is the claim stored in the run's row."""

    within = ""

    def __init__(self, store: Store, redaction: Redaction, *, run_id: str, owner: str) -> None:
        self.run_id = run_id
        self._store = store
        self._redaction = redaction
        self._owner = owner
        self._confirmed_at = -math.inf

    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        if kind not in EVENT_KINDS:
            raise ValueError(f"{kind!r} is not a kind of event; use one of {', '.join(sorted(EVENT_KINDS))}")
        if kind in _LAST_KINDS and "stop_reason" not in payload:
            raise ValueError(f"the payload of a {kind} event must hold stop_reason")
        data = encode(payload)
        if self._redaction.may_occur_in(data):
            payload = self._redaction.blank(payload)
            data = encode(payload)
        event: dict[str, Any] = {"run_id": self.run_id, "at": time.time(), "kind": kind, "data": data}
        event["key"] = payload.get("key")
        changes = {} if totals is None else asdict(totals)
        if kind in _LAST_KINDS:
            names = ("stop_reason", *(field.name for field in fields(RunTotals)))
            changes |= {"state": kind, "finished_at": event["at"]}
            changes |= {name: payload[name] for name in names if name in payload}

        def put(transaction: Transaction) -> int:
            # The run's row stays locked until the commit: a process that takes the run over either waits for
            # this event and sees it, or comes first, and this event is refused.
            run = self._check_owner(transaction.rows(_RUN + transaction.lock, run_id=self.run_id))
            seq = int(run["last_seq"] or 0)
            if transaction.is_repeated and {**event, "seq": seq} in transaction.rows(
                _EVENT, run_id=self.run_id, seq=seq
            ):
                return seq  # the first attempt was committed
            if run["state"] == "finished":
                raise JournalError(f"run {self.run_id} is finished; start a new run")
            transaction.insert("events", [{**event, "seq": seq + 1}])
            if changes:
                transaction.update("runs", changes, "run_id = :run_id", run_id=self.run_id)
            return seq + 1

        try:
            seq = await self._store.write(put)
        except BaseException:
            self._confirmed_at = -math.inf
            raise
        self._confirmed_at = time.monotonic()
        return seq

    def redact(self, value: Any) -> Any:
        return self._redaction.blank(value)

    async def events(self) -> tuple[JournalEvent, ...]:
        await self._store.flush()
        found = await read_events(self._store, self.run_id)
        if not found:
            raise self._lost()
        return found

    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return await find_reply(self._store, key, settings)

    async def check_ownership(self) -> None:
        if time.monotonic() - self._confirmed_at < _CONFIRMED_SECONDS:
            return
        self._check_owner(await self._store.rows(_RUN, run_id=self.run_id))
        self._confirmed_at = time.monotonic()

    async def close(self) -> None:
        """Mark the run as interrupted if it is still running, and still ours."""
        left = {"state": "interrupted", "finished_at": time.time()}
        mine = "run_id = :run_id AND process = :owner AND state = 'running'"
        await self._store.write(
            lambda transaction: transaction.update("runs", left, mine, run_id=self.run_id, owner=self._owner)
        )

    def _check_owner(self, found: Sequence[Row]) -> Row:
        """Return the run's row. Raises JournalError if it is gone, or another's."""
        if not found or found[0]["process"] != self._owner:
            raise self._lost()
        return found[0]

    def _lost(self) -> JournalError:
        return JournalError(
            f"run {self.run_id} was removed or is written by another process; start a new run"
        )
