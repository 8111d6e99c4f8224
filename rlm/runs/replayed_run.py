"""A run that has ended, gone through again in a kernel that another one is given."""

from __future__ import annotations

from dataclasses import dataclass

from rlm.accounting.run_context import RunContext
from rlm.driver.rerun import DIED, repeated
from rlm.prompts.recipes.root import Contract
from rlm.sandbox.protocol import KernelHandler, Sandbox
from rlm.sandbox.types import CellResult

__all__ = ["ReplayedRun"]


@dataclass(frozen=True, slots=True)
class ReplayedRun:
    """Implements Again. `chars` is how much of the body there was, `accounts` are its books: nothing is
    spent."""

    handler: KernelHandler
    chars: int
    run_context: RunContext
    contract: Contract
    cell_seconds: float

    async def cells(self, sandbox: Sandbox) -> tuple[CellResult | None, list[int]]:
        """See Again."""

        async def execute(code: str, round_: int) -> CellResult:
            return await sandbox.execute(code, round=round_, timeout=self.cell_seconds)

        changed: list[int] = []
        async for past, result, same in repeated(self.run_context.playback, self.contract, execute):
            if result.ename == DIED:
                return result, changed
            if not same:
                changed.append(past.number)
            self.run_context.coverage.note_read(result.report.read)
            self.run_context.coverage.note_scanned(result.report.scanned)
        return None, changed
