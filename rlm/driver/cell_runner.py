"""Runs the cells of a root in its kernel, and gives a dead kernel a successor with the same variables."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import replace

from rlm.accounting.run_context import RunContext
from rlm.answers.finalization import Answer
from rlm.driver.kernel_handler import RunHandler
from rlm.driver.outcome import NoAnswer
from rlm.events import Warned
from rlm.lazy_dataclass import dataclass
from rlm.playback.cursor import ReplayCursor
from rlm.playback.recording import RecordedRound, Recording
from rlm.prompts.templates import table
from rlm.sandbox.errors import KernelDied, KernelStartError
from rlm.sandbox.protocol import Sandbox
from rlm.sandbox.types import CellResult

__all__ = ["DIED", "CellRun", "CellRunner", "rerun_cells"]

MAX_DEATHS = 3
MIN_CELL_SECONDS = 0.5


@dataclass(frozen=True, slots=True)
class CellRun:
    """A cell that was run. `notes` are for the root: they report what happened to the kernel."""

    result: CellResult
    notes: tuple[str, ...] = ()
    answer: Answer | None = None


class CellRunner:
    """Holds the kernel of one run. `new_sandbox` makes a kernel that is not open yet. `forget` is called
    before the cells of the run are re-run in a new kernel, and `forget_costs` after it. `last_round_seconds`
    returns the seconds of the last round's cell, or None before that round."""

    def __init__(
        self,
        handler: RunHandler,
        run_context: RunContext,
        *,
        new_sandbox: Callable[[], Sandbox],
        forget: Callable[[], None],
        forget_costs: Callable[[], object],
        last_round_seconds: Callable[[], float | None],
    ) -> None:
        self._new_sandbox = new_sandbox
        self._handler = handler
        self._budget = run_context.budget
        self._log = run_context.log
        self._playback = run_context.playback
        self._observe = run_context.observe
        self._forget = forget
        self._forget_costs = forget_costs
        self._last_round_seconds = last_round_seconds
        self._sandbox: Sandbox | None = None
        self._deaths = 0
        self._variables: dict[str, str] = {}

    @property
    def variables(self) -> tuple[str, ...]:
        """Describe the variables of the kernel."""
        return tuple(self._variables.values())

    def note_variables(self, result: CellResult) -> None:
        """Remember the variables that a cell has changed."""
        self._variables.update((variable.name, str(variable)) for variable in result.report.changed)

    async def run(
        self, code: str, round_: int, past: CellResult | None = None, *, again: bool = False
    ) -> CellRun:
        """Run a cell. `past` is the recorded result; this very object is returned unless the cell diverged.
        A cell that kills its kernel is run `again` in a new kernel, once."""
        if past is not None and past.ename == DIED:
            return CellRun(past)
        self._playback.begin(round_, past)
        words = table("feedback.toml")["kernel"]
        result = await self._execute(code, round_)
        if result.ename == DIED:
            changed = await self._replace_kernel(round_, result)
            if result.status == "timeout" or again:
                if past is not None:
                    await self._note_divergence(round_)
                skipped = words["skipped_twice" if again else "skipped_timeout"]
                return CellRun(result, (skipped, *changed), self._handler.answer())
            ran = await self.run(code, round_, past, again=True)
            return ran if ran.notes else replace(ran, notes=(words["restored"], *changed))
        answer = self._handler.answer()
        if past is None:
            return CellRun(result, answer=answer)
        if result.status == past.status and not self._playback.diverged:
            return CellRun(past, answer=answer)
        await self._note_divergence(round_)
        return CellRun(result, (words["changed"],), answer)

    async def _note_divergence(self, round_: int) -> None:
        self._playback.diverged = True
        await self._log.append("diverged", {"round": round_})
        self._observe(Warned(f"round {round_} changed when it was run again: the following rounds are new"))

    async def _replace_kernel(self, round_: int, result: CellResult) -> list[str]:
        """Replace a dead kernel. Restore the variables from before `round_`. Return notes for the root."""
        # The variables of the dead kernel can only be restored by running its cells again. The journal of
        # this run is read first: it answers the calls of these cells, so no model and no tool is called
        # twice. The cell that was running is not part of it; the caller runs that cell again. The re-run may
        # kill the new kernel, too, so this is a loop that counts the deaths.
        while True:
            self._deaths += 1
            if self._deaths >= MAX_DEATHS:
                raise NoAnswer("kernel", f"the kernel died {self._deaths} times (the last: {result.evalue})")
            await self._log.append("kernel_died", {"round": round_, "reason": result.evalue})
            await self.close()
            self._variables.clear()
            self._forget()
            self._playback.load(Recording.of(await self._log.events(), self._log.within))
            try:
                await self.open()
            except KernelStartError as error:
                raise NoAnswer("kernel", str(error)) from error
            died, changed = await self._rerun_cells(round_)
            if died is None:
                self._forget_costs()
                words = table("feedback.toml")["kernel"]["earlier_changed"]
                return [words.format(rounds=", ".join(map(str, changed)))] if changed else []
            result = died

    async def _rerun_cells(self, round_: int) -> tuple[CellResult | None, list[int]]:
        """Re-run the cells before `round_`. Return the result of the cell that killed the kernel, if any, and
        the rounds whose cells diverged."""
        changed: list[int] = []
        again = rerun_cells(self._playback, self._execute, before=round_)
        async for past, result, same in again:
            if result.ename == DIED:
                return result, changed
            if not same:
                changed.append(past.number)
            self.note_variables(result)
        return None, changed

    async def _execute(self, code: str, round_: int) -> CellResult:
        """Run a cell and return its result. When the run's time is up, the cell and its children are
        interrupted. The kernel stays open for the last round."""
        assert self._sandbox is not None
        left = self._last_round_seconds()
        if left is None:
            left = max(self._budget.seconds_left, MIN_CELL_SECONDS)
        seconds = min(self._budget.limits.cell_seconds, left)
        # A repeated cell's calls are answered by the journal, and end with the run's time if they are not.
        # The calls of any other cell end with that time, too, and the cell may still say what came of them.
        deadline = None if self._playback.repeating else left + MIN_CELL_SECONDS
        try:
            return await self._sandbox.execute(code, round=round_, timeout=seconds, deadline=deadline)
        except KernelDied as error:
            return CellResult(status="died", ename=DIED, evalue=str(error))

    async def open(self) -> None:
        """Open a kernel. If it fails to start, try once more."""
        self._sandbox = self._new_sandbox()
        try:
            await self._sandbox.open()
        except KernelStartError:
            await self.close()
            self._sandbox = self._new_sandbox()
            await self._sandbox.open()

    async def close(self) -> None:
        if self._sandbox is not None:
            sandbox, self._sandbox = self._sandbox, None
            await sandbox.close()


DIED = "KernelDied"
"""The `ename` of the result of a cell that killed its kernel."""


async def rerun_cells(
    playback: ReplayCursor,
    execute: Callable[[str, int], Awaitable[CellResult]],
    *,
    before: int | None = None,
) -> AsyncIterator[tuple[RecordedRound, CellResult, bool]]:
    """Re-run the ended cells of the rounds before `before`. Yield each round, the new result of its cell, and
    whether the result is unchanged. Cells that killed their kernel are skipped."""
    for past in playback.rounds:
        if (before is not None and past.number >= before) or past.cell is None or past.cell.ename == DIED:
            continue
        playback.begin(past.number, past.cell)
        result = await execute(past.code, past.number)
        yield past, result, result.status == past.cell.status and not playback.diverged
