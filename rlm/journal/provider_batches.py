"""The batches that runs have sent to providers, so that a killed run finds its paid replies again.

A batch is recorded before it is sent, and its calls are found again by their keys.

The store is opened for each question: there are few, and hours may lie between them.
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Literal, TypeVar

from rlm.journal.location import opened, store_at
from rlm.journal.store import Row, Transaction, one_of
from rlm.lazy_dataclass import dataclass

__all__ = ["BatchLedger", "BatchRecord", "BatchState", "drop_calls_of"]

_ROWS = 500
"""Rows of one statement: databases limit its parameters."""

_T = TypeVar("_T")

BatchState = Literal["creating", "open", "ended"]
"""`creating`: it may or may not have reached the provider. `ended`: the provider has all its results."""


@dataclass(frozen=True, slots=True)
class BatchRecord:
    """`batch` is our own name of it and `provider_id` the provider's, once it is known. `sent_at` is Unix
    time."""

    batch: str
    model: str
    sent_at: float
    requests: int
    provider_id: str | None = None
    state: BatchState = "creating"


class BatchLedger:
    """The batches in the store at `path_or_url`. Every method raises JournalError if it fails. What
    has begun is finished when its caller is cancelled."""

    def __init__(self, path_or_url: str | Path) -> None:
        store_at(path_or_url)  # refuses one that cannot be read
        self._store = path_or_url

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

    async def _write(self, work: Callable[[Transaction], object]) -> None:
        async with opened(self._store) as store:
            await store.write(work)

    async def _rows(self, query: str, **parameters: str) -> list[Row]:
        async with opened(self._store) as store:
            return await store.rows(query, **parameters)


def drop_calls_of(transaction: Transaction, run_id: str) -> None:
    """Remove the calls of a run, and the batches that hold no other call."""
    transaction.execute("DELETE FROM batch_calls WHERE run_id = :run_id", run_id=run_id)
    transaction.execute("DELETE FROM provider_batches WHERE batch NOT IN (SELECT batch FROM batch_calls)")


def _drop(transaction: Transaction, keys: Sequence[str]) -> None:
    for part in _parts(keys):
        listed, parameters = one_of(part)
        transaction.execute(f"DELETE FROM batch_calls WHERE key IN {listed}", **parameters)  # noqa: S608


def _parts(rows: Sequence[_T]) -> Iterator[list[_T]]:
    for start in range(0, len(rows), _ROWS):
        yield list(rows[start : start + _ROWS])


def _record(row: Row) -> BatchRecord:
    return BatchRecord(**{name: row[name] for name in BatchRecord.__slots__})
