"""The server over stdin and stdout."""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import Any

from mcp.server.mcpserver import MCPServer

__all__ = ["serve_stdio"]

_CHUNK = 1 << 16


async def serve_stdio(server: MCPServer[Any]) -> None:
    """Serve until the client closes stdin. A cancellation ends the server as if the client had left: all runs
    are interrupted and recorded."""
    with _stdin_that_ends() as end:
        serving = asyncio.ensure_future(server.run_stdio_async())
        try:
            await asyncio.wait([serving])
        except asyncio.CancelledError:
            end()
            await asyncio.wait([serving])
            raise
        serving.result()


@contextmanager
def _stdin_that_ends() -> Iterator[Callable[[], None]]:
    """Put a pipe before stdin, and give a function that ends it. The SDK reads stdin on a thread, which
    nothing else can interrupt."""
    given = os.dup(0)
    reader, writer = os.pipe()
    os.dup2(reader, 0)
    os.close(reader)

    def end() -> None:
        # Not os.close: the number could belong to another file when the thread writes next.
        null = os.open(os.devnull, os.O_WRONLY)
        os.dup2(null, writer, inheritable=False)
        os.close(null)

    def copy() -> None:
        with suppress(OSError):
            while data := os.read(given, _CHUNK):
                view = memoryview(data)
                while view:
                    view = view[os.write(writer, view) :]
        end()

    threading.Thread(target=copy, name="rlm-stdin", daemon=True).start()
    try:
        yield end
    finally:
        end()
        os.dup2(given, 0)
