"""The one kernel that the questions of a session share.

It opens when a question first needs it. It then has the variables that the earlier questions left.
"""

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

    async def replay_cells(self, sandbox: Sandbox) -> tuple[CellResult | None, list[int]]:
        """Run the cells again in that kernel. Return the result of the cell that ended the kernel, or None.
        Return also the rounds whose cells gave other results than before."""


PastQuestion = Callable[[], AbstractAsyncContextManager[ReplayableRun]]
"""Opens an earlier question for one replay. Each replay opens it again."""


class SharedKernel:
    """The kernel over `context`. A longer context may replace it. `past` are the questions whose variables
    the kernel holds, oldest first. `seed` seeds its random numbers."""

    def __init__(
        self,
        context: ContextFile,
        kernels: KernelSource,
        *,
        seed: str = "",
        tools: Sequence[Helper] = (),
    ) -> None:
        self.context = context
        self.past: list[PastQuestion] = []
        self.seed = seed
        self._kernels = kernels
        self._tools = tools
        self._handler_proxy = HandlerProxy()
        self._sandbox: JupyterSandbox | None = None
        self._opened_context: ContextFile | None = None

    def lease(
        self,
        handler: KernelHandler,
        chars: int,
        *,
        on_open: Callable[[IsolationReport], None],
        on_replay: Callable[[int], None],
        on_change: Callable[[int, list[int]], None],
    ) -> KernelLease:
        """Return the kernel as a sandbox for one question over the first `chars` characters.

        `on_replay` gets the number of earlier questions that a new kernel replays. `on_change` gets the
        number of a replayed question, and the rounds of it that gave other results than before.
        """
        return KernelLease(self, handler, chars, on_open, on_replay, on_change)

    async def close(self) -> None:
        """Shut down the kernel. The next question that needs it starts a new one."""
        self._handler_proxy.handler = None
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()

    async def acquire(self, lease: KernelLease) -> JupyterSandbox:
        """Give the kernel to the question of `lease`. The caller closes the kernel if this raises."""
        if self._sandbox is None or not self._sandbox.alive or self._opened_context is not self.context:
            await self.close()
            await self._build(lease)
        sandbox = self._sandbox
        assert sandbox is not None
        await sandbox.begin(lease.chars)
        self._handler_proxy.handler = lease.handler
        return sandbox

    async def end_question(self) -> None:
        """End the question. Nothing that it started may continue to run."""
        self._handler_proxy.handler = None
        if self._sandbox is not None and self._sandbox.alive:
            await self._sandbox.begin(0)

    async def _build(self, lease: KernelLease) -> None:
        # A kernel's variables cannot be saved, so a new kernel gets them by running every earlier cell.
        # Each question is replayed over the body as it was then (`begin`), and its own handler answers the
        # cells from the journal, so no call is paid twice. The handlers change behind one proxy, because a
        # kernel keeps the handler that it was opened with. If a cell ends the kernel, the build fails: the
        # next question would not find the variables that it expects.
        sandbox = self._sandbox = JupyterSandbox(
            self.context,
            self._handler_proxy,
            on_open=lease.on_open,
            seed=self.seed,
            kernels=self._kernels,
            tools=self._tools,
            shared=True,
        )
        await sandbox.open()
        self._opened_context = self.context
        if self.past:
            lease.on_replay(len(self.past))
        for number, open_question in enumerate(self.past, 1):
            async with open_question() as replayable:
                await sandbox.begin(replayable.chars)
                self._handler_proxy.handler = replayable.handler
                died, changed = await replayable.replay_cells(sandbox)
            if died is not None:
                raise KernelStartError(
                    f"the kernel's variables could not be restored up to question {number}: {died.evalue}"
                )
            if changed:
                lease.on_change(number, changed)


class KernelLease:
    """The shared kernel, for one question. Implements Sandbox. `close` leaves the kernel open."""

    def __init__(
        self,
        kernel: SharedKernel,
        handler: KernelHandler,
        chars: int,
        on_open: Callable[[IsolationReport], None],
        on_replay: Callable[[int], None],
        on_change: Callable[[int, list[int]], None],
    ) -> None:
        self.handler = handler
        self.chars = chars
        self.on_open = on_open
        self.on_replay = on_replay
        self.on_change = on_change
        self._kernel = kernel
        self._sandbox: JupyterSandbox | None = None

    async def open(self) -> None:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self._kernel.close)
            self._sandbox = await self._kernel.acquire(self)
            undo.pop_all()

    async def execute(
        self, code: str, *, round: int, timeout: float, deadline: float | None = None
    ) -> CellResult:
        assert self._sandbox is not None
        return await self._sandbox.execute(code, round=round, timeout=timeout, deadline=deadline)

    async def interrupt(self) -> None:
        if self._sandbox is not None:
            await self._sandbox.interrupt()

    async def close(self) -> None:
        self._sandbox = None
        await self._kernel.end_question()


class HandlerProxy:
    """Passes the kernel's calls to the handler of the current question. Implements KernelHandler."""

    handler: KernelHandler | None = None

    async def children(self, batch: ChildBatch, answered: AnswerSink) -> None:
        await self._current_handler().children(batch, answered)

    async def sub_rlms(self, batch: SubRLMBatch, answered: AnswerSink) -> None:
        await self._current_handler().sub_rlms(batch, answered)

    async def finalize(self, final: Finalization) -> FinalizeVerdict:
        return await self._current_handler().finalize(final)

    async def chunk_chars(self) -> int:
        return await self._current_handler().chunk_chars()

    async def progress(self) -> Progress:
        return await self._current_handler().progress()

    async def rank(self, query: RankQuery) -> Sequence[RankedSpan]:
        return await self._current_handler().rank(query)

    async def tool(self, call: ToolCall) -> Any:
        return await self._current_handler().tool(call)

    def _current_handler(self) -> KernelHandler:
        if self.handler is None:
            raise BadCall("value", "no question is being asked now")
        return self.handler
