"""What the runs of a batch that have no line yet took in earlier starts of it."""

from __future__ import annotations

from rlm.journal import Journal
from rlm.recording import Recording

__all__ = ["unfinished_costs"]


async def unfinished_costs(store: str, batch: str) -> dict[str, float]:
    """US dollars by the run's name, as far as prices are known. `store` is the journal's. Raises
    JournalError."""
    async with Journal.open(store) as journal:
        names = await journal.unfinished(f"{batch}.")
        costs = [Recording.of(await journal.events(name)).spent.cost_usd for name in names]
    return {name: cost for name, cost in zip(names, costs, strict=True) if cost}
