"""The one kernel that the questions of a session share.

It opens when a question first needs it. It then has the variables that the earlier questions left.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import AsyncExitStack

from rlm.driver.cell_runner import repeat_cells
from rlm.driver.root_state import RecordedCell
from rlm.lazy_dataclass import dataclass
from rlm.playback.border import Border
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.in_kernel.helper_api.registry import Helper
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import KernelHandler
from rlm.sandbox.types import DIED, CellResult

__all__ = ["KernelLease", "PastQuestion", "SharedKernel"]


@dataclass(frozen=True, slots=True)
class PastQuestion:
    """An earlier question: its cells, the characters that the body had then, and the seconds of a cell."""

    chars: int
    cells: Sequence[RecordedCell]
    cell_seconds: float


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
        await sandbox.begin(lease.chars, lease.handler)
        return sandbox

    async def end_question(self) -> None:
        """End the question. Nothing that it started may continue to run."""
        if self._sandbox is not None and self._sandbox.alive:
            await self._sandbox.begin(0, Border())

    async def _build(self, lease: KernelLease) -> None:
        # A kernel's variables cannot be saved, so a new kernel gets them by running every earlier cell, each
        # question over the body as it was then and with the answers that its cells got. If a cell ends the
        # kernel, the build fails: the next question would not find the variables that it expects.
        border = Border()
        sandbox = self._sandbox = JupyterSandbox(
            self.context,
            border,
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
        for number, past in enumerate(self.past, 1):
            await sandbox.begin(past.chars, border)
            changed: list[int] = []
            again = repeat_cells(past.cells, border, lambda: sandbox, past.cell_seconds)
            async for cell, result, is_same in again:
                if result.ename == DIED:
                    raise KernelStartError(
                        "the kernel's variables could not be restored up to question "
                        f"{number}: {result.evalue}"
                    )
                if not is_same:
                    changed.append(cell.round)
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
