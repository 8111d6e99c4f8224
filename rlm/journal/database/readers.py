"""The connections that read from a SQLite file, besides the one that writes to it."""

from __future__ import annotations

import asyncio
import sqlite3
import threading
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from typing import TypeVar

__all__ = ["Readers"]

_MOST_AT_ONCE = 4
_T = TypeVar("_T")


class Readers:
    """Runs work that reads in threads of their own, a few at once. A long read delays no write, and sees the
    store as it was when its statement began. `connect` opens one more connection."""

    def __init__(self, connect: Callable[[], sqlite3.Connection]) -> None:
        self._connect = connect
        self._threads = ThreadPoolExecutor(_MOST_AT_ONCE, thread_name_prefix="rlm-journal-reader")
        self._changing = threading.Lock()
        self._idle: list[sqlite3.Connection] = []
        self._is_closed = False

    async def run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        """Run `work` and return its result. If the caller is cancelled, the work runs to its end."""
        return await asyncio.get_running_loop().run_in_executor(self._threads, self._run, work)

    def close(self) -> None:
        """Close the connections: those in use after their work, which is not waited for."""
        with self._changing:
            self._is_closed = True
            idle, self._idle = self._idle, []
        for connection in idle:
            connection.close()
        self._threads.shutdown(wait=False)

    def _run(self, work: Callable[[sqlite3.Connection], _T]) -> _T:
        with self._changing:
            connection = self._idle.pop() if self._idle else None
        if connection is None:
            connection = self._connect()
        try:
            return work(connection)
        finally:
            with self._changing:
                is_kept = not self._is_closed
                if is_kept:
                    self._idle.append(connection)
            if not is_kept:
                connection.close()
