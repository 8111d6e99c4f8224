"""The batches of a store. A batch is recorded before it is sent, and its calls are found again by their keys.

The store is opened for each question: there are few, and hours may lie between them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import AsyncIterator, Awaitable, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, TypeVar

from sqlalchemy import Row, Select, delete, insert, select, update
from sqlalchemy.ext.asyncio import AsyncConnection

from rlm.journal.database import Database
from rlm.journal.location import store_url
from rlm.journal.provider_batches.record import BatchRecord
from rlm.journal.tables import batch_calls, provider_batches
from rlm.journal.writes import WriteQueue

__all__ = ["BatchLedger", "drop_calls_of"]

_ROWS = 500
"""Rows of one statement: databases limit its parameters."""

_T = TypeVar("_T")
_Work = Callable[[AsyncConnection], Awaitable[None]]


class BatchLedger:
    """The batches in the store at `path_or_url`. Every method raises JournalError if it fails. A
    question that has begun is finished when its caller is cancelled."""

    def __init__(self, path_or_url: str | Path) -> None:
        self._url = store_url(path_or_url)
        self._questions = WriteQueue()

    async def begin(self, model: str, calls: Mapping[str, str]) -> BatchRecord:
        """Record a batch that is about to be sent. `calls` maps the key of each call to its run. A call that
        was in an earlier batch belongs to this one from now on."""
        record = BatchRecord(f"rlm-{secrets.token_hex(12)}", model, time.time(), len(calls))
        rows = [{"key": key, "batch": record.batch, "run_id": run} for key, run in calls.items()]

        async def put(connection: AsyncConnection) -> None:
            # A first attempt may have been committed.
            await connection.execute(delete(provider_batches).where(provider_batches.c.batch == record.batch))
            await _drop(connection, list(calls))
            await connection.execute(
                insert(provider_batches).values(
                    batch=record.batch,
                    model=model,
                    sent_at=record.sent_at,
                    requests=record.requests,
                    state=record.state,
                )
            )
            for part in _parts(rows):
                await connection.execute(insert(batch_calls), part)

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

        async def put(connection: AsyncConnection) -> None:
            await connection.execute(delete(batch_calls).where(batch_calls.c.batch == batch))
            await connection.execute(delete(provider_batches).where(provider_batches.c.batch == batch))

        await self._write(put)

    async def forget(self, keys: Iterable[str]) -> None:
        """Forget calls that have no reply, so that the next such call is sent."""
        calls = list(keys)
        if calls:
            await self._write(lambda connection: _drop(connection, calls))

    async def find(self, keys: Sequence[str]) -> dict[str, BatchRecord]:
        """Return the batches of the calls that are in one, by the calls' keys."""
        found: dict[str, BatchRecord] = {}
        for part in _parts(keys):
            query = (
                select(batch_calls.c.key, provider_batches)
                .join(provider_batches, batch_calls.c.batch == provider_batches.c.batch)
                .where(batch_calls.c.key.in_(part))
            )
            found |= {row.key: _record(row) for row in await self._rows(query)}
        return found

    async def batches(self) -> tuple[BatchRecord, ...]:
        """Return all batches, newest first."""
        query = select(provider_batches).order_by(provider_batches.c.sent_at.desc())
        return tuple(map(_record, await self._rows(query)))

    async def runs_of(self, batch: str) -> tuple[str, ...]:
        """Return the runs that have calls in a batch."""
        query = select(batch_calls.c.run_id).where(batch_calls.c.batch == batch).distinct()
        return tuple(sorted(row.run_id for row in await self._rows(query)))

    async def _update(self, batch: str, **values: str) -> None:
        async def put(connection: AsyncConnection) -> None:
            await connection.execute(
                update(provider_batches).where(provider_batches.c.batch == batch).values(**values)
            )

        await self._write(put)

    async def drain(self) -> None:
        """Wait for the questions that cancelled callers began: no connection may outlive its event loop."""
        await self._questions.drain()

    async def _write(self, work: _Work) -> None:
        async def write() -> None:
            async with self._open() as database:
                await database.write(work)

        await self._questions.finish(write())

    async def _rows(self, query: Select[Any]) -> Sequence[Row[Any]]:
        async def read() -> Sequence[Row[Any]]:
            async with self._open() as database:
                return await database.rows(query)

        return await self._questions.finish(read())

    @asynccontextmanager
    async def _open(self) -> AsyncIterator[Database]:
        database = Database(self._url)
        await database.open()
        try:
            yield database
        finally:
            await database.close()


async def drop_calls_of(connection: AsyncConnection, run_id: str) -> None:
    """Remove the calls of a run, and the batches that hold no other call."""
    await connection.execute(delete(batch_calls).where(batch_calls.c.run_id == run_id))
    used = select(batch_calls.c.batch)
    await connection.execute(delete(provider_batches).where(provider_batches.c.batch.not_in(used)))


async def _drop(connection: AsyncConnection, keys: Sequence[str]) -> None:
    for part in _parts(keys):
        await connection.execute(delete(batch_calls).where(batch_calls.c.key.in_(part)))


def _parts(rows: Sequence[_T]) -> Iterator[list[_T]]:
    for start in range(0, len(rows), _ROWS):
        yield list(rows[start : start + _ROWS])


def _record(row: Row[Any]) -> BatchRecord:
    return BatchRecord(row.batch, row.model, row.sent_at, row.requests, row.provider_id, row.state)
