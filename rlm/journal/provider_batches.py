"""The batches that runs have sent to providers, so that a killed run finds its paid replies again.

A batch is recorded once the provider has named it. The store is opened for each question: there are few, and
hours may lie between them.
"""

from __future__ import annotations

import time
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from rlm.database.store import Row, Transaction, one_of
from rlm.journal.schema import check_location, open_store

__all__ = ["BatchLedger", "BatchRecord", "drop_calls_of"]

_ROWS = 500
"""Keys of one statement: databases limit its parameters."""
_COLUMNS = "provider_id, model, sent_at, requests, state"


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """A batch by the provider's id. `sent_at` is Unix time, and `state` open or ended: the provider has all
    its results."""

    provider_id: str
    model: str
    sent_at: float
    requests: int
    state: str = "open"


class BatchLedger:
    """The calls in batches, by their keys, in the store at `path_or_url`. Every method raises JournalError if
    it fails. What has begun is finished when its caller is cancelled."""

    def __init__(self, path_or_url: str | Path) -> None:
        check_location(path_or_url)  # refuses one that cannot be read
        self._store = path_or_url

    async def add(self, provider_id: str, model: str, calls: Mapping[str, str]) -> BatchRecord:
        """Record a batch that was sent. `calls` maps the key of each call to its run. A call that was in an
        earlier batch belongs to this one from now on."""
        record = BatchRecord(provider_id, model, time.time(), len(calls))
        columns = {name: getattr(record, name) for name in BatchRecord.__slots__}
        rows = [{"key": key, "run_id": run, **columns} for key, run in calls.items()]

        def put(transaction: Transaction) -> None:
            _drop(transaction, list(calls))
            transaction.insert("batch_calls", rows)

        async with open_store(self._store) as store:
            await store.write(put)
        return record

    async def set_ended(self, provider_id: str) -> None:
        """Record that all results of a batch are at the provider."""
        await self._execute("UPDATE batch_calls SET state = 'ended' WHERE provider_id = :id", provider_id)

    async def remove(self, provider_id: str) -> None:
        """Forget a batch: its results are gone, and its calls are sent again."""
        await self._execute("DELETE FROM batch_calls WHERE provider_id = :id", provider_id)

    async def forget(self, keys: Sequence[str]) -> None:
        """Forget calls that have no reply, so that the next such call is sent."""
        async with open_store(self._store) as store:
            await store.write(lambda transaction: _drop(transaction, keys))

    async def find(self, keys: Sequence[str]) -> dict[str, BatchRecord]:
        """Return the batches of the calls that are in one, by the calls' keys."""
        found: dict[str, BatchRecord] = {}
        async with open_store(self._store) as store:
            for listed, parameters in _parts(keys):
                query = f"SELECT key, {_COLUMNS} FROM batch_calls WHERE key IN {listed}"  # noqa: S608
                found |= {row["key"]: _record(row) for row in await store.rows(query, **parameters)}
        return found

    async def batches(self) -> dict[BatchRecord, list[str]]:
        """Return all batches, newest first, with the runs that have calls in them."""
        query = f"SELECT DISTINCT {_COLUMNS}, run_id FROM batch_calls ORDER BY sent_at DESC, run_id"  # noqa: S608
        found: dict[BatchRecord, list[str]] = {}
        async with open_store(self._store) as store:
            for row in await store.rows(query):
                found.setdefault(_record(row), []).append(row["run_id"])
        return found

    async def _execute(self, sql: str, provider_id: str) -> None:
        async with open_store(self._store) as store:
            await store.write(lambda transaction: transaction.execute(sql, id=provider_id))


def drop_calls_of(transaction: Transaction, run_id: str) -> None:
    """Remove the calls of a run."""
    transaction.execute("DELETE FROM batch_calls WHERE run_id = :run_id", run_id=run_id)


def _drop(transaction: Transaction, keys: Sequence[str]) -> None:
    for listed, parameters in _parts(keys):
        transaction.execute(f"DELETE FROM batch_calls WHERE key IN {listed}", **parameters)  # noqa: S608


def _parts(keys: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    return (one_of(keys[start : start + _ROWS]) for start in range(0, len(keys), _ROWS))


def _record(row: Row) -> BatchRecord:
    return BatchRecord(**{name: row[name] for name in BatchRecord.__slots__})
