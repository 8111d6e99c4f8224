"""Replays the runs of a bench without a model, and scores their answers again."""

from __future__ import annotations

from collections.abc import AsyncIterator

from rlm.bench.answer import said_by
from rlm.bench.folder import BenchFolder, Row
from rlm.bench.scoring import score
from rlm.errors import RLMError
from rlm.lazy_dataclass import dataclass
from rlm.replay import replay
from rlm.sandbox.errors import SandboxError, SandboxRefused
from rlm.settings import Settings

__all__ = ["Evidence", "replay_rows"]


@dataclass(frozen=True, slots=True)
class Evidence:
    """What became of one result. `fault` is why it does not hold, "" if it does: the replay gives the same
    answer, and the rule the same score."""

    row: Row
    fault: str = ""


async def replay_rows(folder: BenchFolder, settings: Settings) -> AsyncIterator[Evidence]:
    """Yield the evidence of each result that has a run, in order. Verdicts of a judge are not asked again.
    Raises SandboxRefused and JournalError."""
    for row in folder.rows.values():
        if row.run_id:
            yield Evidence(row, await _fault(folder, row, settings))


async def _fault(folder: BenchFolder, row: Row, settings: Settings) -> str:
    if row.status == "error":
        return ""
    try:
        replayed = await replay(row.run_id, store=folder.store, settings=settings)
    except SandboxRefused:
        raise
    except (RLMError, SandboxError) as error:
        return str(error)
    if not replayed.equal:
        return "the replay gives another answer"
    from rlm.journal import Journal

    async with Journal.open(folder.store) as journal:
        events = await journal.events(row.run_id)
    if said_by(replayed.recorded, events) != row.said:
        return "the answer that was scored is not that of the run"
    item = folder.facts["items"][row.item]
    if row.verdict is None and score(item["rule"], row.said, item["golds"]) != row.score:
        return "the rule gives another score"
    return ""
