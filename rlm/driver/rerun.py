"""Re-runs the cells of a run in order, to give a new kernel the variables of a dead one."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from rlm.playback.cursor import ReplayCursor
from rlm.playback.recording import RecordedRound
from rlm.sandbox.types import CellResult

__all__ = ["DIED", "rerun_cells"]

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
