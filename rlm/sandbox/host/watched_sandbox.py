"""A sandbox over a file that is read in place."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from contextlib import contextmanager

from rlm.sandbox.errors import SandboxError
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.text.body import Body, WatchedFile
from rlm.sandbox.types import CellResult

__all__ = ["WatchedSandbox", "watching"]


def watching(sandbox: Sandbox, body: Body) -> Sandbox:
    """Return a sandbox whose results are of the text that was indexed. It is `sandbox` itself unless the body
    is read in place."""
    return sandbox if body.watched is None else WatchedSandbox(sandbox, body.watched)


class WatchedSandbox:
    """Checks the file after each cell, before anyone gets its result. A kernel reads the file through a
    mapping: it sees a change as other text, and is killed if the file is cut off. Either raises
    SourceChanged."""

    def __init__(self, sandbox: Sandbox, watched: WatchedFile) -> None:
        self._sandbox = sandbox
        self._watched = watched

    async def open(self) -> None:
        with self._blaming_the_file():
            await self._sandbox.open()

    async def execute(
        self, code: str, *, round: int, timeout: float, deadline: float | None = None
    ) -> CellResult:
        with self._blaming_the_file():
            result = await self._sandbox.execute(code, round=round, timeout=timeout, deadline=deadline)
        # On a thread: a gigabyte that was touched is hashed.
        await asyncio.to_thread(self._watched.check)
        return result

    async def interrupt(self) -> None:
        await self._sandbox.interrupt()

    async def close(self) -> None:
        await self._sandbox.close()

    @contextmanager
    def _blaming_the_file(self) -> Iterator[None]:
        """Raise SourceChanged for any failure after the file changed."""
        try:
            yield
        except SandboxError:
            self._watched.check()
            raise
