"""Gives other tasks of the event loop a turn during a long computation."""

from __future__ import annotations

import asyncio
import time

__all__ = ["CooperativeYield"]

_SECONDS = 0.01


class CooperativeYield:
    """Yields to the event loop when 10 ms have passed since it last did.

    By time and not by count: how long one step takes is up to the cell that asked for it.
    """

    def __init__(self) -> None:
        self._since = time.monotonic()

    async def checkpoint(self) -> None:
        """Let other tasks run, if it is their turn. Raises CancelledError like any await."""
        if time.monotonic() - self._since > _SECONDS:
            await asyncio.sleep(0)
            self._since = time.monotonic()
