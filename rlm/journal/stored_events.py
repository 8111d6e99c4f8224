"""Events as rows of a store: their JSON, and the queries that read them back."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

from rlm.database.store import Row, Store
from rlm.errors import JournalError
from rlm.journal.checks import is_count, is_event, is_record, is_time, parse
from rlm.journal.events import EVENT_KINDS, JournalEvent

__all__ = ["encode", "event_bytes", "find_reply", "read_events"]


def encode(value: Any) -> str:
    """Return `value` as JSON in ASCII, which any database can store."""
    return json.dumps(value, ensure_ascii=True, separators=(",", ":"))


async def read_events(
    store: Store, run_id: str, after: int = 0, limit: int | None = None
) -> tuple[JournalEvent, ...]:
    """Return the committed events of a run behind `after`, in order, at most `limit`; () if the run is not in
    the store. Raises JournalError for a damaged event."""
    query = (
        "SELECT run_id, seq, at, kind, data FROM events WHERE run_id = :run_id AND seq > :after ORDER BY seq"
    )
    if limit is None:
        rows = await store.rows(query, run_id=run_id, after=after)
    else:
        rows = await store.rows(f"{query} LIMIT :most", run_id=run_id, after=after, most=limit)
    return tuple(_decode(store.name, row) for row in rows)


async def read_last_event(store: Store, run_id: str) -> JournalEvent | None:
    """Return the newest committed event of a run, or None. Raises JournalError for a damaged event."""
    query = "SELECT run_id, seq, at, kind, data FROM events WHERE run_id = :run_id ORDER BY seq DESC LIMIT 1"
    rows = await store.rows(query, run_id=run_id)
    return _decode(store.name, rows[0]) if rows else None


async def find_reply(store: Store, key: str, settings: Mapping[str, Any]) -> Mapping[str, Any] | None:
    """Return the newest complete reply to the child call `key`, from any run with these settings of the
    model's calls."""
    query = "SELECT data FROM events WHERE key = :key AND kind = 'child' ORDER BY at DESC"
    for row in await store.rows(query, key=key):
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
