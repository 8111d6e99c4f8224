"""The one thread that writes to a SQLite file. Writes that wait together share a transaction."""

from __future__ import annotations

import asyncio
import contextlib
import queue
import sqlite3
import threading
import weakref
from collections.abc import Callable, Sequence
from itertools import groupby
from typing import Any, TypeVar

from rlm.lazy_dataclass import dataclass

__all__ = ["Writer"]

_MOST_TOGETHER = 256
_T = TypeVar("_T")


@dataclass(slots=True, eq=False)
class _Job:
    """Work for the connection, and the future that waits for its result. `is_alone`: it needs no transaction,
    or cannot run within one."""

    work: Callable[[sqlite3.Connection], Any]
    future: asyncio.Future[Any]
    is_alone: bool
    result: Any = None
    fault: Exception | None = None

    def run(self, connection: sqlite3.Connection) -> None:
        """Run the work, and keep its result or its exception."""
        self.result = self.fault = None
        try:
            self.result = self.work(connection)
        except Exception as error:
            self.fault = error

    def settle(self) -> None:
        """Give the result to the future, in the thread of its loop."""
        if self.future.done():  # its caller was cancelled
            return
        if self.fault is None:
            self.future.set_result(self.result)
        else:
            self.future.set_exception(self.fault)


@dataclass(slots=True, eq=False)
class _End:
    """The last entry of the queue. `closed` waits until the connection is closed."""

    closed: asyncio.Future[None] | None = None

    def settle(self) -> None:
        if self.closed is not None and not self.closed.done():
            self.closed.set_result(None)


_Queue = queue.SimpleQueue[_Job | _End]


class Writer:
    """Runs work in a thread of its own, in the order of the calls. `connect` is called there. If it fails,
    all work fails with its error.

    The thread is a daemon: a program whose event loop was broken off ends without it. What was not committed
    by then was not answered either.
    """

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._queue: _Queue = queue.SimpleQueue()
        threading.Thread(
            target=_serve, args=(self._queue, connect), name="rlm-journal-writer", daemon=True
        ).start()
        self._abandoned = weakref.finalize(self, self._queue.put, _End())
        self._abandoned.atexit = False

    async def commit(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` in a transaction and return its result after the commit.

        If it raises an exception, its changes are undone, and the others of the transaction are kept. It runs
        again if the transaction fails as a whole. Cancelling the caller does not cancel the work.
        """
        return await self._submit(work, is_alone=False)

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` outside of any transaction and return its result."""
        return await self._submit(work, is_alone=True)

    async def close(self) -> None:
        """Finish the work that waits, and close the connection."""
        self._abandoned.detach()
        closed = asyncio.get_running_loop().create_future()
        self._queue.put(_End(closed))
        await closed

    def _submit(self, work: Callable[[sqlite3.Connection], _T], *, is_alone: bool) -> asyncio.Future[_T]:
        future: asyncio.Future[_T] = asyncio.get_running_loop().create_future()
        self._queue.put(_Job(work, future, is_alone))
        return future


def _serve(entries: _Queue, connect: Callable[[], sqlite3.Connection]) -> None:
    end: _End | None = None
    try:
        connection = connect()
    except Exception as error:
        while end is None:
            end = _refuse_waiting(entries, error)
    else:
        with contextlib.closing(connection):
            while end is None:
                end = _run_waiting(entries, connection)
    if end.closed is not None:
        with contextlib.suppress(RuntimeError):  # the loop was closed
            end.closed.get_loop().call_soon_threadsafe(end.settle)


def _waiting(entries: _Queue) -> tuple[list[_Job], _End | None]:
    """Wait for an entry, and return all that there are, up to the end."""
    jobs: list[_Job] = []
    while not jobs or (len(jobs) < _MOST_TOGETHER and not entries.empty()):
        entry = entries.get()
        if isinstance(entry, _End):
            return jobs, entry
        jobs.append(entry)
    return jobs, None


def _refuse_waiting(entries: _Queue, fault: Exception) -> _End | None:
    jobs, end = _waiting(entries)
    for job in jobs:
        job.fault = fault
    _answer(jobs)
    return end


def _run_waiting(entries: _Queue, connection: sqlite3.Connection) -> _End | None:
    jobs, end = _waiting(entries)
    for is_alone, group in groupby(jobs, lambda job: job.is_alone):
        together = list(group)
        if is_alone:
            for job in together:
                job.run(connection)
        else:
            _commit(connection, together)
        _answer(together)
    return end


def _commit(connection: sqlite3.Connection, jobs: Sequence[_Job]) -> None:
    """Run jobs in one transaction. One that fails is undone alone. If the transaction fails, each job gets
    its own."""
    has_begun = False
    try:
        connection.execute("BEGIN IMMEDIATE")
        has_begun = True
        for job in jobs:
            _run_within(connection, job, is_only=len(jobs) == 1)
        connection.execute("COMMIT")
    except Exception as error:
        with contextlib.suppress(sqlite3.Error):  # it may have ended by itself
            connection.execute("ROLLBACK")
        if has_begun and len(jobs) > 1:
            for job in jobs:
                _commit(connection, [job])
            return
        for job in jobs:
            job.fault = error


def _run_within(connection: sqlite3.Connection, job: _Job, *, is_only: bool) -> None:
    """Run a job in the open transaction. Raises its exception if that ends the transaction."""
    if not is_only:
        connection.execute("SAVEPOINT job")
    job.run(connection)
    if job.fault is not None and (is_only or not connection.in_transaction):
        raise job.fault
    if not is_only:
        if job.fault is not None:
            connection.execute("ROLLBACK TO job")
        connection.execute("RELEASE job")


def _answer(jobs: Sequence[_Job]) -> None:
    """Settle the futures of finished jobs. Those of one loop share a call, which is what a hop costs."""
    for loop, group in groupby(jobs, lambda job: job.future.get_loop()):
        together = list(group)
        with contextlib.suppress(RuntimeError):  # the loop was closed
            loop.call_soon_threadsafe(_settle, together)


def _settle(jobs: Sequence[_Job]) -> None:
    for job in jobs:
        job.settle()
