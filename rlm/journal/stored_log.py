"""The log of a run that is being written: its events, committed in order by one owner."""

from __future__ import annotations

import asyncio
import math
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rlm.errors import JournalError
from rlm.journal.database import Database, RowConflict, Transaction
from rlm.journal.events import EVENT_KINDS, EventKind, JournalEvent
from rlm.journal.redaction import Redaction
from rlm.journal.stored_events import encode, find_reply, read_events
from rlm.journal.writes import LAST_KINDS, PendingEvent, WriteQueue
from rlm.results import RunTotals

__all__ = ["StoredLog"]

_CONFIRMED_SECONDS = 0.25
"""How long `check_ownership` trusts its last answer: the children of a batch do not all ask the store."""
_OWNER = "SELECT process FROM runs WHERE run_id = :run_id"


class StoredLog:
    """Appends events in order, whatever tasks append them. An event that was appended is committed, and
    survives a kill of the process.

    `owner` is the claim stored in the run's row. `last_seq` is the number of events already stored.
    """

    within = ""

    def __init__(
        self,
        database: Database,
        writes: WriteQueue,
        redaction: Redaction,
        *,
        run_id: str,
        owner: str,
        last_seq: int = 0,
    ) -> None:
        self.run_id = run_id
        self._database = database
        self._writes = writes
        self._redaction = redaction
        self._owner = owner
        self._last_seq = last_seq
        self._order = asyncio.Lock()
        self._pending: list[PendingEvent] = []
        self._next_write: asyncio.Task[None] | None = None
        self._is_finished = False
        self._confirmed_at = -math.inf

    async def append(
        self, kind: EventKind, payload: Mapping[str, Any], *, totals: RunTotals | None = None
    ) -> int:
        if kind not in EVENT_KINDS:
            raise ValueError(f"{kind!r} is not a kind of event; use one of {', '.join(sorted(EVENT_KINDS))}")
        if kind in LAST_KINDS and "stop_reason" not in payload:
            raise ValueError(f"the payload of a {kind} event must hold stop_reason")
        data = encode(payload)
        if self._redaction.may_occur_in(data):
            payload = self._redaction.blank(payload)
            data = encode(payload)
        pending = PendingEvent(kind, payload, data, time.time(), totals)
        self._pending.append(pending)
        # Events that arrive during a write share the next transaction.
        if self._next_write is None:
            self._next_write = self._writes.start(self._write_pending())
        await asyncio.shield(self._next_write)
        if pending.fault is not None:
            raise pending.fault
        return pending.seq

    def redact(self, value: Any) -> Any:
        return self._redaction.blank(value)

    async def events(self) -> tuple[JournalEvent, ...]:
        await self._writes.drain()
        found = await read_events(self._database, self.run_id)
        if not found:
            raise self._lost()
        return found

    async def find_reply(self, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
        return await find_reply(self._database, key, settings)

    async def check_ownership(self) -> None:
        if time.monotonic() - self._confirmed_at < _CONFIRMED_SECONDS:
            return
        rows = await self._database.rows(_OWNER, run_id=self.run_id)
        self._check_owner(rows[0]["process"] if rows else None)
        self._confirmed_at = time.monotonic()

    async def close(self) -> None:
        """Mark the run as interrupted unless its `finished` event is written."""
        if not self._is_finished:
            await self._writes.finish(self._update_run({"state": "interrupted", "finished_at": time.time()}))

    async def _write_pending(self) -> None:
        async with self._order:
            batch, self._pending, self._next_write = self._pending, [], None
            await self._write(batch)

    async def _write(self, batch: Sequence[PendingEvent]) -> None:
        """Commit the events of a batch together, or set the fault of each.

        `seq` is assigned here and not by the database, so that a run has no gaps and two writers of one run
        collide on the primary key. A collision has two causes that look alike. Another process may have
        taken the run over and written first: then the run is lost. Or the server went away just after it
        had committed this very batch, and `Database.write` tried it again: then the store already holds our
        rows, byte for byte, and the batch counts as written.

        The insert comes before the check of the owner, because a transaction that begins with a read cannot
        be turned into a write while another process writes (SQLite). The check holds the run's row until the
        commit: a process that takes the run over either waits for this batch and sees it, or comes first and
        makes the check fail, which rolls the insert back.

        `_is_finished` is set while the batch is assembled, because events behind a `finished` in the same
        batch must be refused. A failed commit clears it again.
        """
        rows: list[dict[str, Any]] = []
        for pending in batch:
            if self._is_finished:
                pending.fault = JournalError(f"run {self.run_id} is finished; start a new run")
                continue
            pending.seq = self._last_seq + len(rows) + 1
            rows.append(pending.to_row(self.run_id))
            self._is_finished = pending.kind == "finished"
        accepted = [pending for pending in batch if pending.fault is None]
        if not rows:
            return

        changes: dict[str, Any] = {}
        for pending in accepted:
            changes |= pending.run_changes()

        def put(transaction: Transaction) -> None:
            transaction.insert("events", rows)
            owner = transaction.scalar(_OWNER + transaction.share_lock, run_id=self.run_id)
            self._check_owner(owner)
            if changes:
                transaction.update("runs", changes, "run_id = :run_id", run_id=self.run_id)

        fault: JournalError
        try:
            try:
                await self._database.write(put)
            except RowConflict:
                if not await self._has(rows):
                    raise
        except RowConflict:
            fault = self._lost()
        except JournalError as error:
            fault = error
        else:
            self._last_seq += len(rows)
            self._confirmed_at = time.monotonic()
            return
        self._is_finished = False
        self._confirmed_at = -math.inf
        for pending in accepted:
            pending.fault = fault

    async def _has(self, rows: Sequence[Mapping[str, Any]]) -> bool:
        """Return whether the store holds exactly these events from the first one on."""
        query = "SELECT * FROM events WHERE run_id = :run_id AND seq >= :first ORDER BY seq"
        found = await self._database.rows(query, run_id=self.run_id, first=rows[0]["seq"])
        return list(map(dict, found)) == list(rows)

    def _check_owner(self, owner: str | None) -> None:
        if owner != self._owner:
            raise self._lost()

    def _lost(self) -> JournalError:
        return JournalError(
            f"run {self.run_id} was removed or is written by another process; start a new run"
        )

    async def _update_run(self, values: Mapping[str, Any]) -> None:
        """Change the run's row if this process still owns it."""
        mine = "run_id = :run_id AND process = :owner"
        await self._database.write(
            lambda transaction: transaction.update(
                "runs", values, mine, run_id=self.run_id, owner=self._owner
            )
        )
