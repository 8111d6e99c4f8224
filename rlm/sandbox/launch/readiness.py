"""Waiting for a descriptor without holding up the loop."""

from __future__ import annotations

import asyncio

__all__ = ["readable"]


async def readable(descriptor: int) -> None:
    """Until `descriptor` can be read from; a pidfd can once its process has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)
