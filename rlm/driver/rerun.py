"""The cells of a run, run again in order: how a new kernel gets the variables of one that is gone."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable

from rlm.driver.reply_contract import Violation, parse
from rlm.playback.cursor import ReplayCursor
from rlm.playback.recording import RecordedRound
from rlm.prompts.recipes.root import Contract
from rlm.sandbox.types import CellResult

__all__ = ["DIED", "repeated"]

DIED = "KernelDied"
"""The `ename` of the result of a cell that ended its kernel."""


async def repeated(
    playback: ReplayCursor,
    contract: Contract,
    execute: Callable[[str, int], Awaitable[CellResult]],
    *,
    before: int | None = None,
) -> AsyncIterator[tuple[RecordedRound, CellResult, bool]]:
    """Each round whose cell came to its end, of those before round `before`: the result its cell has now, and
    whether it came out as before. Those that ended their kernel are left out."""
    for past in playback.rounds:
        if (before is not None and past.number >= before) or past.cell is None or past.cell.ename == DIED:
            continue
        cell = parse(past.reply.text, finish_reason="stop", contract=contract)
        assert not isinstance(cell, Violation)
        playback.begin(past.number, past.cell)
        result = await execute(cell.code, past.number)
        yield past, result, result.status == past.cell.status and not playback.diverged
