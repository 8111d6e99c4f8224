"""Waits for a descriptor without blocking the event loop."""

from __future__ import annotations

import asyncio

__all__ = ["readable"]


async def readable(descriptor: int) -> None:
    """Wait until `descriptor` is readable. A pidfd is readable once its process has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
