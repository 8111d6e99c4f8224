"""Fakes for tests of applications: a scripted model, and a sandbox without a process.

model = ScriptedModel.of(root=["```repl\\npeek(0, 3)\\nfinalize(1)\\n```"])
result = await RLM(model, settings=Settings(strategy="rlm")).run("How many?", "one")

A block looks at the input before it finalizes: an answer without a look is refused.
"""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Sequence

from rlm.models.offline.scripted import ScriptedModel
from rlm.sandbox.errors import KernelDied
from rlm.sandbox.protocol import KernelHandler
from rlm.sandbox.types import CellResult

__all__ = ["FakeSandbox", "ScriptedModel"]

Cell = CellResult | Callable[[str, KernelHandler], Awaitable[CellResult]]


class FakeSandbox:
    """Implements the Sandbox protocol by returning prepared results, in order. `codes` is the code it got.

    A result with the status `died` ends the fake, like the death of a kernel. A coroutine function gets the
    code and the handler, so it can make the requests of a cell; an interrupt cancels it. Cells do not
    compute, so none times out unless its result says so."""

    def __init__(self, handler: KernelHandler, results: Sequence[Cell]) -> None:
        self._handler = handler
        self._results = list(results)
        self.codes: list[str] = []
        self.opened = 0
        self.closed = 0
        self._alive = False
        self._running: asyncio.Future[CellResult] | None = None

    async def open(self) -> None:
        self.opened += 1
        self._alive = True

    async def execute(
        self, code: str, *, round: int, timeout: float, deadline: float | None = None
    ) -> CellResult:
        if not self._alive or not self._results:
            raise KernelDied("the fake kernel has no more results")
        self.codes.append(code)
        result = self._results.pop(0)
        if not isinstance(result, CellResult):
            result = await self._run(result(code, self._handler))
        self._alive = self._alive and result.status != "died"
        return result

    async def _run(self, cell: Awaitable[CellResult]) -> CellResult:
        self._running = asyncio.ensure_future(cell)
        try:
            await asyncio.wait([self._running])
            if self._running.cancelled():
                return CellResult("error", ename="KeyboardInterrupt")
            return self._running.result()
        finally:
            self._running.cancel()
            self._running = None

    async def interrupt(self) -> None:
        if self._running is not None:
            self._running.cancel()

    async def close(self) -> None:
        self.closed += 1
        await self.interrupt()
        self._alive = False
