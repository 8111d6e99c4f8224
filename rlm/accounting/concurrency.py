"""What the runs of one tree share beside their ledger: places for children, and for kernels."""

from __future__ import annotations

import asyncio

__all__ = ["KERNELS_A_DEPTH", "ConcurrencyLimits"]

KERNELS_A_DEPTH = 4
"""Sub-RLMs of one depth that run at a time. Each has a kernel, of some 20 MB and of processor time."""


class ConcurrencyLimits:
    """`children` holds as many places as calls may be under way at a time."""

    def __init__(self, concurrency: int) -> None:
        self.children = asyncio.Semaphore(concurrency)
        self._kernels: dict[int, asyncio.Semaphore] = {}

    def kernels(self, depth: int) -> asyncio.Semaphore:
        """Places for the sub-RLMs of a depth. Each depth has its own: those above wait for those below."""
        return self._kernels.setdefault(depth, asyncio.Semaphore(KERNELS_A_DEPTH))
