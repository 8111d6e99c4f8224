"""The one kernel that the questions of a session share. It opens when a question first needs it, in the state
that the earlier questions left."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AbstractAsyncContextManager, AsyncExitStack
from typing import Any, Protocol

from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.helper_api.registry import Helper
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import AnswerSink, KernelHandler, Sandbox
from rlm.sandbox.types import (
    CellResult,
    ChildBatch,
    Finalization,
    FinalizeVerdict,
    Progress,
    RankedSpan,
    RankQuery,
    SubRLMBatch,
    ToolCall,
)

__all__ = ["KernelLease", "PastQuestion", "ReplayableRun", "SharedKernel"]


class ReplayableRun(Protocol):
    """An earlier question, ready to be replayed in a new kernel. `chars` is the length of the body at that
    time. The handler answers its cells from the journal."""

    @property
    def chars(self) -> int: ...

    @property
    def handler(self) -> KernelHandler: ...

    async def cells(self, sandbox: Sandbox) -> tuple[CellResult | None, list[int]]:
        """Run its cells again in that kernel. Return the result of the cell that ended the kernel, or None,
        and the rounds whose cells gave other results than before."""


PastQuestion = Callable[[], AbstractAsyncContextManager[ReplayableRun]]
"""Opens the question for one replay. Each replay needs a new one."""


class SharedKernel:
    """The kernel over `context`, which may be replaced by a longer one. `past` are the questions whose
    variables it holds, oldest first. `seed` seeds its random numbers."""

    def __init__(
        self, context: ContextFile, kernels: KernelSource, *, seed: str = "", tools: Sequence[Helper] = ()
    ) -> None:
        self.context = context
        self.past: list[PastQuestion] = []
        self.seed = seed
        self._kernels = kernels
        self._tools = tools
        self._switch = HandlerProxy()
        self._sandbox: JupyterSandbox | None = None
        self._of: ContextFile | None = None

    def seat(
        self,
        handler: KernelHandler,
        chars: int,
        *,
        opened: Callable[[IsolationReport], None],
        repeating: Callable[[int], None],
        changed: Callable[[int, list[int]], None],
    ) -> KernelLease:
        """Return the kernel as a sandbox for one question over the first `chars` characters. `repeating` gets
        how many earlier questions a new kernel replays; `changed` gets the number of a question, and its
        rounds that gave other results than before."""
        return KernelLease(self, handler, chars, opened, repeating, changed)

    async def close(self) -> None:
        """End the kernel. The next question that needs one builds it again."""
        self._switch.handler = None
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()

    async def acquire(self, seat: KernelLease) -> JupyterSandbox:
        """Give the kernel to the question of `seat`. Close the kernel if this raises."""
        if self._sandbox is None or not self._sandbox.alive or self._of is not self.context:
            await self.close()
            await self._build(seat)
        sandbox = self._sandbox
        assert sandbox is not None
        await sandbox.begin(seat.chars)
        self._switch.handler = seat.handler
        return sandbox

    async def leave(self) -> None:
        """End the question. Nothing that it left running may continue."""
        self._switch.handler = None
        if self._sandbox is not None and self._sandbox.alive:
            await self._sandbox.begin(0)

    async def _build(self, seat: KernelLease) -> None:
        # A kernel's variables cannot be saved, so a new kernel gets them by running every earlier cell.
        # Each question is replayed over the body as it was then (`begin`), and its own handler answers the
        # cells from the journal: nothing is asked or paid twice. The handlers change behind one proxy,
        # because a kernel keeps the handler that it was opened with. A cell that ends the kernel ends the
        # build, because the variables would not be those that the next question expects.
        sandbox = self._sandbox = JupyterSandbox(
            self.context,
            self._switch,
            opened=seat.opened,
            seed=self.seed,
            kernels=self._kernels,
            tools=self._tools,
            shared=True,
        )
        await sandbox.open()
        self._of = self.context
        if self.past:
            seat.repeating(len(self.past))
        for number, make in enumerate(self.past, 1):
            async with make() as again:
                await sandbox.begin(again.chars)
                self._switch.handler = again.handler
                died, changed = await again.cells(sandbox)
            if died is not None:
                raise KernelStartError(
                    f"the kernel's variables could not be restored up to question {number}: {died.evalue}"
                )
            if changed:
                seat.changed(number, changed)


class KernelLease:
    """Implements Sandbox for one question. Closing it leaves the kernel open."""

    def __init__(
        self,
        kernel: SharedKernel,
        handler: KernelHandler,
        chars: int,
        opened: Callable[[IsolationReport], None],
        repeating: Callable[[int], None],
        changed: Callable[[int, list[int]], None],
    ) -> None:
        self.handler = handler
        self.chars = chars
        self.opened = opened
        self.repeating = repeating
        self.changed = changed
        self._kernel = kernel
        self._sandbox: JupyterSandbox | None = None

    async def open(self) -> None:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._kernel.close)
            self._sandbox = await self._kernel.acquire(self)
            undo.pop_all()

    async def execute(self, code: str, *, round: int, timeout: float) -> CellResult:
        assert self._sandbox is not None
        return await self._sandbox.execute(code, round=round, timeout=timeout)

    async def interrupt(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.interrupt()

    async def close(self) -> None:
        self._sandbox = None
        await self._kernel.leave()


class HandlerProxy:
    """Passes the kernel's calls to the handler of the current question. Implements KernelHandler."""

    handler: KernelHandler | None = None

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await self._now().children(batch, answered)

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        await self._now().sub_rlms(batch, answered)

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        return await self._now().finalize(final)

    async def progress(self) -> Progress:
        return await self._now().progress()

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        return await self._now().rank(query)

    async def tool(self, call: ToolCall) -> Any:
        return await self._now().tool(call)

    def _now(self) -> KernelHandler:
        if self.handler is None:
            raise BadCall("value", "no question is being asked now")
        return self.handler
