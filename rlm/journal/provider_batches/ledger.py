"""The batches of a store. A batch is recorded before it is sent, and its calls are found again by their keys.

The store is opened for each question: there are few, and hours may lie between them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import TypeVar

from rlm.journal.database import Database, Row, Transaction, database_at
from rlm.journal.database.transaction import one_of
from rlm.journal.provider_batches.record import BatchRecord
from rlm.journal.writes import WriteQueue

__all__ = ["BatchLedger", "drop_calls_of"]

_ROWS = 500
"""Rows of one statement: databases limit its parameters."""

_T = TypeVar("_T")
_Work = Callable[[Transaction], object]


class BatchLedger:
    """The batches in the store at `path_or_url`. Every method raises JournalError if it fails. A
    question that has begun is finished when its caller is cancelled."""

    def __init__(self, path_or_url: str | Path) -> None:
        database_at(path_or_url)  # refuses one that cannot be read
        self._store = path_or_url
        self._questions = WriteQueue()

    async def begin(self, model: str, calls: Mapping[str, str]) -> BatchRecord:
        """Record a batch that is about to be sent. `calls` maps the key of each call to its run. A call that
        was in an earlier batch belongs to this one from now on."""
        record = BatchRecord(f"rlm-{secrets.token_hex(12)}", model, time.time(), len(calls))
        rows = [{"key": key, "batch": record.batch, "run_id": run} for key, run in calls.items()]

        row = {name: getattr(record, name) for name in ("batch", "model", "sent_at", "requests", "state")}

        def put(transaction: Transaction) -> None:
            # A first attempt may have been committed.
            transaction.execute("DELETE FROM provider_batches WHERE batch = :batch", batch=record.batch)
            _drop(transaction, list(calls))
            transaction.insert("provider_batches", [row])
            for part in _parts(rows):
                transaction.insert("batch_calls", part)

        await self._write(put)
        return record

    async def set_open(self, batch: str, provider_id: str) -> None:
        """Record the provider's id of a batch."""
        await self._update(batch, provider_id=provider_id, state="open")

    async def set_ended(self, batch: str) -> None:
        """Record that all results of a batch are at the provider."""
        await self._update(batch, state="ended")

    async def remove(self, batch: str) -> None:
        """Forget a batch and its calls: it was never created, or its results are gone."""

        def put(transaction: Transaction) -> None:
            transaction.execute("DELETE FROM batch_calls WHERE batch = :batch", batch=batch)
            transaction.execute("DELETE FROM provider_batches WHERE batch = :batch", batch=batch)

        await self._write(put)

    async def forget(self, keys: Iterable[str]) -> None:
        """Forget calls that have no reply, so that the next such call is sent."""
        calls = list(keys)
        if calls:
            await self._write(lambda transaction: _drop(transaction, calls))

    async def find(self, keys: Sequence[str]) -> dict[str, BatchRecord]:
        """Return the batches of the calls that are in one, by the calls' keys."""
        found: dict[str, BatchRecord] = {}
        for part in _parts(keys):
            listed, parameters = one_of(part)
            query = (
                "SELECT batch_calls.key, provider_batches.* FROM batch_calls JOIN provider_batches "  # noqa: S608
                f"ON batch_calls.batch = provider_batches.batch WHERE batch_calls.key IN {listed}"
            )
            found |= {row["key"]: _record(row) for row in await self._rows(query, **parameters)}
        return found

    async def batches(self) -> tuple[BatchRecord, ...]:
        """Return all batches, newest first."""
        return tuple(map(_record, await self._rows("SELECT * FROM provider_batches ORDER BY sent_at DESC")))

    async def runs_of(self, batch: str) -> tuple[str, ...]:
        """Return the runs that have calls in a batch."""
        query = "SELECT DISTINCT run_id FROM batch_calls WHERE batch = :batch"
        return tuple(sorted(row["run_id"] for row in await self._rows(query, batch=batch)))

    async def _update(self, batch: str, **values: str) -> None:
        await self._write(
            lambda transaction: transaction.update("provider_batches", values, "batch = :batch", batch=batch)
        )

    async def drain(self) -> None:
        """Wait for the questions that cancelled callers began: no connection may outlive its event loop."""
        await self._questions.drain()

    async def _write(self, work: _Work) -> None:
        async def write() -> None:
            async with self._open() as database:
                await database.write(work)

        await self._questions.finish(write())

    async def _rows(self, query: str, **parameters: str) -> list[Row]:
        async def read() -> list[Row]:
            async with self._open() as database:
                return await database.rows(query, **parameters)

        return await self._questions.finish(read())

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Database]:
        database = database_at(self._store)
        await database.open()
        try:
            yield database
        finally:
            await database.close()


def drop_calls_of(transaction: Transaction, run_id: str) -> None:
    """Remove the calls of a run, and the batches that hold no other call."""
    transaction.execute("DELETE FROM batch_calls WHERE run_id = :run_id", run_id=run_id)
    transaction.execute("DELETE FROM provider_batches WHERE batch NOT IN (SELECT batch FROM batch_calls)")


def _drop(transaction: Transaction, keys: Sequence[str]) -> None:
    for part in _parts(keys):
        transaction.delete_any("batch_calls", "key", part)


def _parts(rows: Sequence[_T]) -> Iterator[list[_T]]:
    for start in range(0, len(rows), _ROWS):
        yield list(rows[start : start + _ROWS])


def _record(row: Row) -> BatchRecord:
    return BatchRecord(**{name: row[name] for name in BatchRecord.__slots__})
