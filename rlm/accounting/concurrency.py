"""Limits what the runs of one tree use at a time: children, kernels, and room on the disk."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

__all__ = ["COPIED_BYTES", "KERNELS_A_DEPTH", "ConcurrencyLimits", "DiskRoom"]

KERNELS_A_DEPTH = 4
"""Sub-RLMs of one depth that run at a time. Each has a kernel, of some 20 MB and of processor time."""

COPIED_BYTES = 96 * 2**20
"""Bytes that the copied sources of sub-RLMs take at a time at depth 1, half of it at depth 2, and so on: less
than twice as much in a whole tree. A source of one span is not copied."""


class DiskRoom:
    """At most `limit` bytes on the disk at a time. A caller that needs more than is free waits for its turn,
    in the order of arrival."""

    def __init__(self, limit: int) -> None:
        self.limit = limit
        self._free = limit
        self._turn = asyncio.Lock()
        self._freed = asyncio.Event()

    @asynccontextmanager
    async def hold(self, size: int) -> AsyncIterator[None]:
        """Hold `size` bytes, which must not be more than `limit`."""
        async with self._turn:
            while self._free < size:
                self._freed.clear()
                await self._freed.wait()
            self._free -= size
        try:
            yield
        finally:
            self._free += size
            self._freed.set()


class ConcurrencyLimits:
    """`children` limits the calls in flight."""

    def __init__(self, concurrency: int) -> None:
        self.children = asyncio.Semaphore(concurrency)
        self._kernels: dict[int, asyncio.Semaphore] = {}
        self._disk: dict[int, DiskRoom] = {}

    def kernels(self, depth: int) -> asyncio.Semaphore:
        """Return the semaphore of a depth. Each depth has its own, since a run waits for those below it."""
        return self._kernels.setdefault(depth, asyncio.Semaphore(KERNELS_A_DEPTH))

    def disk(self, depth: int) -> DiskRoom:
        """Return the room for the copied sources of the sub-RLMs at a depth, which is at least 1. Each depth
        has its own, like the kernels."""
        return self._disk.setdefault(depth, DiskRoom(COPIED_BYTES >> (depth - 1)))
