"""Replays the cells of an ended run in the kernel of a later run."""

from __future__ import annotations

from rlm.driver.rerun import DIED, rerun_cells
from rlm.runs.run import Run
from rlm.sandbox.protocol import KernelHandler, Sandbox
from rlm.sandbox.types import CellResult

__all__ = ["ReplayedRun"]


class ReplayedRun:
    """Implements ReplayableRun. It calls no model, because the handler answers from the journal."""

    def __init__(self, run: Run) -> None:
        run.handler.accept_all()
        self.handler: KernelHandler = run.handler
        self.chars = run.input.body.chars
        self._run_context = run.run_context
        self._cell_seconds = run.config.limits.cell_seconds

    async def replay_cells(self, sandbox: Sandbox) -> tuple[CellResult | None, list[int]]:
        """See ReplayableRun."""

        async def execute(code: str, round_: int) -> CellResult:
            return await sandbox.execute(code, round=round_, timeout=self._cell_seconds)

        changed: list[int] = []
        async for past, result, same in rerun_cells(self._run_context.playback, execute):
            if result.ename == DIED:
                return result, changed
            if not same:
                changed.append(past.number)
            self._run_context.coverage.note_read(result.report.read)
            self._run_context.coverage.note_scanned(result.report.scanned)
        return None, changed
