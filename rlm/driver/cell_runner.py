"""Runs the cells of a root in its kernel, and gives a dead kernel a successor with the same variables."""

from __future__ import annotations

import math
from collections.abc import AsyncIterator, Callable, Sequence
from dataclasses import dataclass, replace

from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.outcome import NoAnswer
from rlm.driver.root_state import RecordedCell, RootState
from rlm.playback.border import Border, RecordedAnswer
from rlm.playback.recording import Recording
from rlm.prompts.templates import table
from rlm.sandbox.errors import KernelDied, KernelStartError
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.types import DIED, CellResult

__all__ = ["CellOutcome", "CellRunner", "repeat_cells"]

MAX_DEATHS = 3
MIN_CELL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class CellOutcome:
    """A cell that was run. `notes` are for the root: they report what happened to the kernel."""

    result: CellResult
    notes: tuple[str, ...] = ()
    answer: Answer | None = None


class CellRunner:
    """Holds the kernel of one run, whose cells that ended are in `state`. `new_sandbox` makes a kernel that
    is not open yet. `restore_sub_rlms` gets what the journal holds after a kernel died. `last_round_seconds`
    returns the seconds of the last round's cell, or None before that round."""

    def __init__(
        self,
        handler: RunHandler,
        border: Border,
        state: RootState,
        run_context: RunContext,
        *,
        new_sandbox: Callable[[], Sandbox],
        restore_sub_rlms: Callable[[Recording], None],
        last_round_seconds: Callable[[], float | None],
    ) -> None:
        self._new_sandbox = new_sandbox
        self._handler = handler
        self._border = border
        self._state = state
        self._budget = run_context.budget
        self._log = run_context.log
        self._restore_sub_rlms = restore_sub_rlms
        self._last_round_seconds = last_round_seconds
        self._sandbox: Sandbox | None = None
        self._deaths = 0

    async def open(self) -> tuple[RecordedCell, CellOutcome] | None:
        """Open a kernel, and run the cells in it that ended before. Return the first one that goes another
        way, with what it does now. If the kernel fails to start, try once more."""
        await self._start()
        while True:
            died: CellResult | None = None
            async for cell, result, is_same in self._repeat_cells(math.inf):
                if result.ename == DIED:
                    died = result
                    await self._replace_kernel(cell.round, result)
                    break
                if not is_same:
                    changed = table("feedback.toml")["kernel"]["changed"]
                    return cell, CellOutcome(result, (changed,), self._handler.answer())
            if died is None:
                return None

    async def run(
        self, code: str, round_: int, tools: Sequence[RecordedAnswer] = (), *, again: bool = False
    ) -> CellOutcome:
        """Run a cell. `tools` are the results that an earlier try of it got. A cell that kills its kernel is
        run `again` in a new kernel, once."""
        self._border.begin(tools)
        result = await self._execute_cell(code, round_)
        if result.ename != DIED:
            return CellOutcome(result, answer=self._handler.answer())
        tools = self._border.tools
        changed = await self._restore_variables(round_, result)
        words = table("feedback.toml")["kernel"]
        if result.status == "timeout" or again:
            self._border.begin(tools)
            skipped = words["skipped_twice" if again else "skipped_timeout"]
            return CellOutcome(result, (skipped, *changed), self._handler.answer())
        ran = await self.run(code, round_, tools, again=True)
        return ran if ran.notes else replace(ran, notes=(words["restored"], *changed))

    async def close(self) -> None:
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()

    async def _restore_variables(self, round_: int, result: CellResult) -> list[str]:
        """Replace the dead kernel of `round_`, and run all cells before again. Return notes for the root."""
        # The cells may kill the new kernel, too, so this is a loop that counts the deaths.
        while True:
            await self._replace_kernel(round_, result)
            changed: list[int] = []
            async for cell, again, is_same in self._repeat_cells(self._seconds_left()):
                if again.ename == DIED:
                    result = again
                    break
                if not is_same:
                    changed.append(cell.round)
            else:
                # Those of the killed cell were cancelled with it, and go on where they stopped.
                self._restore_sub_rlms(Recording.of(await self._log.events(), self._log.within))
                words = table("feedback.toml")["kernel"]["earlier_changed"]
                return [words.format(rounds=", ".join(map(str, changed)))] if changed else []

    async def _replace_kernel(self, round_: int, result: CellResult) -> None:
        self._deaths += 1
        if self._deaths >= MAX_DEATHS:
            raise NoAnswer("kernel", f"the kernel died {self._deaths} times (the last: {result.evalue})")
        await self._log.append("kernel_died", {"round": round_, "reason": result.evalue})
        await self.close()
        try:
            await self._start()
        except KernelStartError as error:
            raise NoAnswer("kernel", str(error)) from error

    async def _start(self) -> None:
        self._sandbox = self._new_sandbox()
        try:
            await self._sandbox.open()
        except KernelStartError:
            await self.close()
            self._sandbox = self._new_sandbox()
            await self._sandbox.open()

    async def _execute_cell(self, code: str, round_: int) -> CellResult:
        """Run a cell and return its result. When the run's time is up, the cell and its children are
        interrupted. The kernel stays open for the last round."""
        left = self._seconds_left()
        seconds = min(self._budget.limits.cell_seconds, left)
        # The calls of the cell end with the run's time, too, and the cell may still say what came of them.
        return await _execute(self._open_sandbox(), code, round_, seconds, left + MIN_CELL_SECONDS)

    def _seconds_left(self) -> float:
        left = self._last_round_seconds()
        return max(self._budget.seconds_left, MIN_CELL_SECONDS) if left is None else left

    def _repeat_cells(self, seconds: float) -> AsyncIterator[tuple[RecordedCell, CellResult, bool]]:
        return repeat_cells(
            self._state.cells,
            self._border,
            self._open_sandbox,
            min(self._budget.limits.cell_seconds, seconds),
        )

    def _open_sandbox(self) -> Sandbox:
        assert self._sandbox is not None
        return self._sandbox


async def repeat_cells(
    cells: Sequence[RecordedCell],
    border: Border,
    sandbox: Callable[[], Sandbox],
    cell_seconds: float,
) -> AsyncIterator[tuple[RecordedCell, CellResult, bool]]:
    """Run cells again that ended, with the answers that they got. Yield each with its new result, and whether
    it went the same way. Leave out those that killed their kernel."""
    for cell in list(cells):
        if cell.result.ename == DIED:
            continue
        was_interrupted = cell.result.status == "timeout"
        border.repeat(cell.answers, sandbox().interrupt if was_interrupted else None)
        result = await _execute(sandbox(), cell.code, cell.round, cell_seconds)
        is_same = result.status == cell.result.status or (
            was_interrupted and result.ename == "KeyboardInterrupt"
        )
        yield cell, result, is_same and not border.diverged


async def _execute(
    sandbox: Sandbox, code: str, round_: int, seconds: float, deadline: float | None = None
) -> CellResult:
    """Run a cell, for at most so many `seconds` of computing. That no kernel runs is a result, too."""
    try:
        return await sandbox.execute(code, round=round_, timeout=seconds, deadline=deadline)
    except KernelDied as error:
        return CellResult(status="died", ename=DIED, evalue=str(error))
