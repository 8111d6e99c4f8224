"""The checker processes of a driver: started on first use, reused, and ended with the driver."""

from __future__ import annotations

import asyncio
import threading
from typing import Any
from weakref import WeakKeyDictionary

from rlm.answers.checker.process import CheckerProcess
from rlm.sandbox import ConfinedWorker
from rlm.sandbox.launch.one_per_process import OnePerProcess

__all__ = ["CheckerPool", "shared_pool"]

_MEMORY_MB = 1_024
_MAX_PROCESSES = 2
"""Processes of one event loop."""
_MAX_IDLE = 2
_MAX_BUSY_SECONDS = 600.0
"""A process that has worked longer is replaced, before it reaches its limit of computing."""


class CheckerPool:
    """Hands requests to processes. Safe to use from several event loops, each on a thread of its own."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._worker = ConfinedWorker(memory_mb=_MEMORY_MB)
        self._idle: list[CheckerProcess] = []
        self._busy: set[CheckerProcess] = set()
        self._slots: WeakKeyDictionary[asyncio.AbstractEventLoop, asyncio.Semaphore] = WeakKeyDictionary()

    @property
    def size(self) -> int:
        """Return the number of processes."""
        with self._lock:
            return len(self._idle) + len(self._busy)

    async def ask(
        self, request: dict[str, Any], *, descriptor: int | None = None, seconds: float
    ) -> dict[str, Any]:
        """Return the answer to a request (see `worker`). Raises CheckFailed.

        `seconds` count from when a process is free for it.
        """
        async with self._slot():
            process = self._take()
            try:
                answer = await process.ask(request, descriptor, seconds)
            except BaseException:
                with self._lock:
                    self._busy.discard(process)
                raise
            self._put_back(process)
            return answer

    def close(self) -> None:
        """End all processes. A later request starts new ones."""
        with self._lock:
            processes = [*self._idle, *self._busy]
            self._idle, self._busy = [], set()
        for process in processes:
            process.kill()
        self._worker.close()

    def abandon(self) -> None:
        """Forget all processes. For a fork of the process that owns them."""
        self._lock = threading.Lock()
        for process in (*self._idle, *self._busy):
            process.kill()  # closes this process's copy of the channel, and so ends nothing
        self._worker.abandon()
        self._idle, self._busy = [], set()
        self._slots = WeakKeyDictionary()

    def _slot(self) -> asyncio.Semaphore:
        with self._lock:
            return self._slots.setdefault(asyncio.get_running_loop(), asyncio.Semaphore(_MAX_PROCESSES))

    def _take(self) -> CheckerProcess:
        with self._lock:
            while self._idle:
                process = self._idle.pop()
                if process.is_alive:
                    self._busy.add(process)
                    return process
                process.kill()
            process = CheckerProcess(self._worker)
            self._busy.add(process)
            return process

    def _put_back(self, process: CheckerProcess) -> None:
        with self._lock:
            self._busy.discard(process)
            if len(self._idle) < _MAX_IDLE and process.busy_seconds < _MAX_BUSY_SECONDS:
                self._idle.append(process)
                return
        process.kill()


_shared = OnePerProcess(CheckerPool)


def shared_pool() -> CheckerPool:
    """Return the pool of this process. Its processes end at exit."""
    return _shared.get()
