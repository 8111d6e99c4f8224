"""Controls a sandboxed Jupyter kernel from the driver.

The driver uses two sockets: the watcher's channel (cells and results) and the helper channel (the cells'
requests). It opens no ZMQ socket and shares no memory with the kernel except the context file.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from typing import Any, Literal

from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelDied
from rlm.sandbox.host.bridge import Bridge
from rlm.sandbox.host.kernel_process import FreshKernels, KernelProcess, KernelSource
from rlm.sandbox.in_kernel.registry import Helper
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import KernelHandler
from rlm.sandbox.types import DIED, CellReport, CellResult, KernelLimits, Span

__all__ = ["GRACE_SECONDS", "JupyterSandbox", "SandboxLevel"]

SandboxLevel = Literal["auto"] | int

GRACE_SECONDS = 2.0
"""Seconds that an interrupted cell has to stop. Then its kernel is killed."""

_TICK_SECONDS = 0.05


class JupyterSandbox:
    """One kernel over one context. Implements the Sandbox protocol.

    level: the isolation level. "auto" takes the strongest level of at least `minimum` that works on this
        machine, as probes have proved. A number is used without a probe.
    on_open: called with the isolation report each time a kernel has been opened.
    kernels: the source of the kernel, for example a KernelPool. It replaces `limits`, `level` and `minimum`.
    seed: seeds the kernel's random numbers, so that the same cells give the same output. None is random.
    window: the part of the context that the kernel's `context` shows. Offsets count from its start.
    tools: the host tools that a cell may call. The handler runs them.
    shared: several questions use the kernel, one after another. Call `begin` for each.
    """

    def __init__(
        self,
        context: ContextFile,
        handler: KernelHandler,
        *,
        limits: KernelLimits | None = None,
        level: SandboxLevel = "auto",
        minimum: int = 2,
        on_open: Callable[[IsolationReport], None] | None = None,
        kernels: KernelSource | None = None,
        seed: str | None = None,
        window: Span | None = None,
        tools: Sequence[Helper] = (),
        shared: bool = False,
    ) -> None:
        self._context = context
        self._window = window
        self._tools = tools
        self._shared = shared
        self._handler = handler
        self._kernels = kernels or FreshKernels(limits, level=level, minimum=minimum)
        self._on_open = on_open
        self._seed = seed
        self._bridge: Bridge | None = None
        self._kernel: KernelProcess | None = None
        self._running = False
        self._cells = 0
        self.isolation = IsolationReport(0)

    @property
    def alive(self) -> bool:
        """Return whether the next cell can run in this kernel."""
        return self._bridge is not None and self._kernel is not None and self._kernel.alive

    async def open(self) -> None:
        kernel = self._kernel = await self._kernels.acquire()
        try:
            helper = await kernel.attach(
                self._context,
                self._seed,
                self._window,
                self._tools,
                shared=self._shared,
            )
            chars = self._context.chars
            if self._window is not None:
                chars = self._window.end - self._window.start
            bridge = self._bridge = Bridge(self._handler, chars, lambda error: kernel.kill(str(error)))
            try:
                await bridge.open(helper)
            except BaseException:
                helper.close()
                raise
        except BaseException:
            await self.close()
            raise
        self.isolation = kernel.isolation
        if self._on_open is not None:
            self._on_open(self.isolation)

    async def execute(
        self, code: str, *, round: int, timeout: float, deadline: float | None = None
    ) -> CellResult:
        kernel, bridge = self._kernel, self._bridge
        if kernel is None or bridge is None or not kernel.alive:
            raise KernelDied((kernel.death if kernel else None) or "the kernel is not running")
        bridge.begin_cell()
        try:
            code.encode()
        except UnicodeEncodeError as error:
            # A lone surrogate cannot be sent as UTF-8. Return the error that Python would report.
            surrogate = ascii(code[error.start])[1:-1]
            line = code.count("\n", 0, error.start) + 1
            return CellResult(
                "error", ename="SyntaxError", evalue=f"{surrogate} in line {line} is not a character"
            )
        self._cells += 1
        number = self._cells
        await kernel.execute(number, code, round)
        self._running = True
        try:
            answer = await self._outcome(kernel, bridge, number, timeout, deadline)
        except asyncio.CancelledError:
            # The caller closes the kernel next. Until then, the cell must not continue.
            await self.interrupt()
            raise
        finally:
            self._running = False
        report = bridge.read_report(str(answer.get("report", "")))
        if kernel.death is not None and "detail" not in answer:
            answer = {"status": "died", "detail": kernel.death}
        return _result(answer, report, bridge.clock.seconds)

    async def begin(self, chars: int, handler: KernelHandler) -> None:
        """Start another question, about the first `chars` characters of the context, whose calls go to
        `handler`.

        Calls that earlier cells still have in flight (from their threads) are cancelled.
        """
        self._handler = handler
        if self._bridge is not None:
            await self._bridge.begin_question(chars, handler, shared=self._shared)

    async def interrupt(self) -> None:
        if self._running and self._kernel is not None and self._kernel.alive:
            await self._kernel.interrupt()

    async def close(self) -> None:
        # Shielded: if the caller is cancelled, the shutdown still completes.
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        bridge, self._bridge = self._bridge, None
        kernel, self._kernel = self._kernel, None
        try:
            if bridge is not None:
                await bridge.close()
        finally:
            if kernel is not None:
                await self._kernels.release(kernel)

    async def _outcome(
        self, kernel: KernelProcess, bridge: Bridge, number: int, timeout: float, deadline: float | None
    ) -> dict[str, Any]:
        """Wait for a cell's result. Interrupt it after `timeout` or at the `deadline`; kill the kernel if it
        does not stop."""
        interrupted: float | None = None
        loop = asyncio.get_running_loop()
        last = math.inf if deadline is None else loop.time() + deadline
        while True:
            event: dict[str, Any] = {"event": "none"}
            with suppress(TimeoutError):
                event = await asyncio.wait_for(kernel.event(), _TICK_SECONDS)
            bridge.clock.charge(kernel.take_computed())
            if event["event"] == "result" and event.get("id") == number:
                status = "timeout" if interrupted is not None else "ok" if event["ok"] else "error"
                return {**event, "status": status}
            if event["event"] == "died":
                return {"status": "timeout" if interrupted is not None else "died", "detail": kernel.death}
            # Looked at after every event: one may belong to a cell before this one.
            if interrupted is None and (bridge.clock.seconds > timeout or loop.time() > last):
                interrupted = loop.time()
                await self.interrupt()
            elif interrupted is not None and loop.time() - interrupted > GRACE_SECONDS:
                limit = timeout if deadline is None else min(timeout, deadline)
                kernel.kill(f"the cell ran over {limit:g} s and did not stop when interrupted")
                return {"status": "timeout", "detail": kernel.death, "kernel": "killed"}


def _result(answer: Mapping[str, Any], report: CellReport, computed: float) -> CellResult:
    if "detail" in answer:
        return CellResult(
            status=answer["status"],
            ename=DIED,
            evalue=str(answer["detail"]),
            seconds=computed,
            report=report,
        )
    stdout = str(answer["stdout"])
    result = answer["result"]
    return CellResult(
        status=answer["status"],
        stdout=stdout,
        stderr=str(answer["stderr"]),
        stdout_chars=max(report.stdout_chars, len(stdout)),
        result=None if result is None else str(result),
        ename=str(answer["ename"]),
        evalue=str(answer["evalue"]),
        traceback=str(answer["traceback"]),
        seconds=float(answer["seconds"]),
        report=report,
    )
