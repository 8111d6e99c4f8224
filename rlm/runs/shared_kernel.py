"""The one kernel that the questions of a session share.

It opens when a question first needs it. It then has the variables that the earlier questions left.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from contextlib import AsyncExitStack
from dataclasses import dataclass
from typing import Self

from rlm.driver.cell_runner import repeat_cells
from rlm.driver.root_state import RecordedCell, RootState
from rlm.errors import JournalError, UsageError
from rlm.journal import Journal
from rlm.journal.checks import damage_reported
from rlm.playback.border import Border
from rlm.prompts import EarlierQuestion
from rlm.results import RunResult
from rlm.runs.stored_run import StoredRun, limits_of, settings_of, stored_result
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.host.kernel_process import KernelSource
from rlm.sandbox.in_kernel.registry import Helper
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.protocol import KernelHandler
from rlm.sandbox.types import DIED, CellResult
from rlm.settings import Settings

__all__ = ["KernelLease", "PreviousQuestion", "SharedKernel", "read_earlier_runs"]


@dataclass(frozen=True, slots=True)
class PreviousQuestion:
    """An earlier question. `run_id` names its run, `variables` describes its variables, by name. Its `cells`
    make them again: over the body as it was then, of `chars` characters, each in `cell_seconds`."""

    run_id: str
    question: EarlierQuestion
    variables: Mapping[str, str]
    chars: int
    cells: Sequence[RecordedCell]
    cell_seconds: float

    @classmethod
    def of(cls, stored: StoredRun) -> Self:
        """Return the question of a stored run. Raises UsageError if the run has not ended."""
        result = stored_result(stored.run_id, stored.events)
        if result is None:
            raise UsageError(
                f"run {stored.run_id} has not ended. Resume it first (rlm resume {stored.run_id})"
            )
        with damage_reported(stored.run_id):
            events = ((event.kind, event.data) for event in stored.recording().events)
            state = RootState.of(events, settings_of(Settings(), stored.facts).root.output_limit)
        return cls.asked(
            stored.task, result, state, stored.facts["context_chars"], limits_of(stored.facts).cell_seconds
        )

    @classmethod
    def asked(cls, task: str, result: RunResult, state: RootState, chars: int, cell_seconds: float) -> Self:
        """Return a question that was answered over a body of `chars` characters."""
        answer = result.answer
        if answer is None:
            text = f"none ({result.stop_reason})"
        else:
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        return cls(
            result.run_id,
            EarlierQuestion(task, text),
            dict(state.variables),
            chars,
            tuple(state.cells),
            cell_seconds,
        )


async def read_earlier_runs(journal: Journal, stored: StoredRun) -> tuple[StoredRun, ...]:
    """Return the runs that `stored` continues, oldest first. Raises UsageError if one of them is gone."""
    found: list[StoredRun] = []
    latest, seen = stored, {stored.run_id}
    while (name := latest.facts.get("after")) is not None:
        if name in seen:
            raise UsageError(f"run {stored.run_id} continues itself: its journal is damaged")
        seen.add(name)
        try:
            latest = await StoredRun.read(journal, name)
        except JournalError as error:
            raise UsageError(
                f"run {stored.run_id} continues run {name}, which is no longer in the journal. "
                "Ask the question again"
            ) from error
        found.append(latest)
    return tuple(reversed(found))


class SharedKernel:
    """The kernel over `context`. A longer context may replace it. `past` are the questions whose variables
    the kernel holds, oldest first."""

    def __init__(
        self,
        context: ContextFile,
        kernels: KernelSource,
        *,
        past: Sequence[PreviousQuestion] = (),
        tools: Sequence[Helper] = (),
    ) -> None:
        self.context = context
        self.past = list(past)
        self._kernels = kernels
        self._tools = tools
        self._sandbox: JupyterSandbox | None = None
        self._opened_context: ContextFile | None = None

    @property
    def variables(self) -> tuple[str, ...]:
        """Return one line for each variable that the kernel holds: `name: type, size`."""
        variables: dict[str, str] = {}
        for one in self.past:
            variables.update(one.variables)
        return tuple(variables.values())

    def first_run(self, run_id: str) -> str:
        """Return the first run of the session, which `run_id` may be."""
        return self.past[0].run_id if self.past else run_id

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
            seed=f"{self.first_run(lease.run_id)}:0",
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


@dataclass(slots=True)
class KernelLease:
    """The kernel as a sandbox for one question, over the first `chars` characters. `close` leaves it open.

    `on_replay` gets the number of earlier questions that a new kernel replays. `on_change` gets the number of
    a replayed question, and the rounds of it that gave other results than before.
    """

    kernel: SharedKernel
    handler: KernelHandler
    chars: int
    run_id: str
    on_open: Callable[[IsolationReport], None]
    on_replay: Callable[[int], None]
    on_change: Callable[[int, list[int]], None]
    sandbox: JupyterSandbox | None = None

    async def open(self) -> None:
        async with AsyncExitStack() as undo:
            undo.push_async_callback(self.kernel.close)
            self.sandbox = await self.kernel.acquire(self)
            undo.pop_all()

    async def execute(
        self, code: str, *, round: int, timeout: float, deadline: float | None = None
    ) -> CellResult:
        assert self.sandbox is not None
        return await self.sandbox.execute(code, round=round, timeout=timeout, deadline=deadline)

    async def interrupt(self) -> None:
        if self.sandbox is not None:
            await self.sandbox.interrupt()

    async def close(self) -> None:
        self.sandbox = None
        await self.kernel.end_question()
