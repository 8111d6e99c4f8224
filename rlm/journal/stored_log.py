"""The events of runs as rows of a store: the log that one owner writes in order, and what reads them."""

from __future__ import annotations

import json
import math
import time
from collections.abc import Mapping, Sequence
from dataclasses import asdict, fields
from typing import Any

from rlm.database.store import Row, Store, Transaction
from rlm.errors import JournalError
from rlm.journal.checks import is_count, is_event, is_record, is_time, parse
from rlm.journal.events import EVENT_KINDS, EventKind, JournalEvent
from rlm.journal.redaction import Redaction
from rlm.journal.run_log import RunLog
from rlm.results import RunTotals

__all__ = ["StoredLog", "encode", "event_bytes", "read_events", "read_last_event"]

ALL = 2**62
"""A limit of rows that is none."""
_CONFIRMED_SECONDS = 0.25
"""How long `check_ownership` trusts its last answer: the children of a batch do not all ask the store."""
_LAST_KINDS = frozenset({"finished", "interrupted"})
"""Kinds of events that update the state of their run."""
_RUN = (
    "SELECT process, state, (SELECT max(seq) FROM events WHERE run_id = :run_id) AS last_seq "
    "FROM runs WHERE run_id = :run_id"
)
_EVENT = "SELECT * FROM events WHERE run_id = :run_id AND seq = :seq"


class StoredLog(RunLog):
    """Appends events in order, whatever tasks append them. An event that was appended is committed, and
    survives a kill of the process. `owner` is the claim stored in the run's row."""

    def __init__(self, store: Store, redaction: Redaction, *, run_id: str, owner: str) -> None:
        super().__init__(run_id)
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
        if self.within:
            payload, totals = {**payload, "within": self.within}, None
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
        query = "SELECT data FROM events WHERE key = :key AND kind = 'child' ORDER BY at DESC"
        for row in await self._store.rows(query, key=key):
            try:
                data: Mapping[str, Any] = parse(row["data"])
            except ValueError:
                continue
            if not is_record(data):
                continue
            is_complete = data.get("finish_reason") == "stop" and bool(data.get("reply"))
            if is_complete and data.get("settings", {}) == settings:
                return data
        return None

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


def encode(value: Any) -> str:
    """Return `value` as JSON in ASCII, which any database can store."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


async def read_events(
    store: Store, run_id: str, after: int = 0, limit: int | None = None
) -> tuple[JournalEvent, ...]:
    """Return the committed events of a run behind `after`, in order, at most `limit`; () if the run is not in
    the store. Raises JournalError for a damaged event."""
    query = (
        "SELECT run_id, seq, at, kind, data FROM events WHERE run_id = :run_id AND seq > :after ORDER BY seq "
        "LIMIT :most"
    )
    rows = await store.rows(query, run_id=run_id, after=after, most=ALL if limit is None else limit)
    return tuple(_decode(store.name, row) for row in rows)


async def read_last_event(store: Store, run_id: str) -> JournalEvent | None:
    """Return the newest committed event of a run, or None. Raises JournalError for a damaged event."""
    query = "SELECT run_id, seq, at, kind, data FROM events WHERE run_id = :run_id ORDER BY seq DESC LIMIT 1"
    rows = await store.rows(query, run_id=run_id)
    return _decode(store.name, rows[0]) if rows else None


async def event_bytes(store: Store, run_id: str) -> int:
    """Return the approximate size of a run's events in the store."""
    query = "SELECT sum(length(data)) AS bytes FROM events WHERE run_id = :run_id"
    return int((await store.rows(query, run_id=run_id))[0]["bytes"] or 0)


def _decode(store: str, row: Row) -> JournalEvent:
    try:
        data = parse(row["data"])
    except ValueError:
        data = None
    if not (
        is_count(row["seq"])
        and is_time(row["at"])
        and row["kind"] in EVENT_KINDS
        and is_event(row["kind"], data)
    ):
        raise JournalError(
            f"event {row['seq']!s:.20} of run {row['run_id']} is damaged in {store}: "
            f"remove the run (rlm runs rm {row['run_id']}) and ask again"
        )
    return JournalEvent(row["run_id"], row["seq"], row["at"], row["kind"], data)
