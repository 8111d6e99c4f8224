"""The budget of a whole bench. A run starts only if what all runs in flight may spend fits it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rlm.errors import BudgetExhausted

__all__ = ["BenchBudget"]


class BenchBudget:
    """US dollars for all runs together; None is no limit. Every run has the same limit of its
    own, so that no arm is cut short because it comes late."""

    def __init__(self, total: float | None, *, spent: float = 0.0) -> None:
        self.total = total
        self.spent = spent
        self._in_flight = 0.0
        self._settled = asyncio.Condition()

    @asynccontextmanager
    async def share(self, most: float, before: float = 0.0) -> AsyncIterator[list[float]]:
        """Reserve `most` dollars for the block. It appends what was spent to the list that it gets.
        `before` of the share are spent already, by an earlier start. Raises BudgetExhausted if too little is
        left and nothing in flight can free some."""
        reserved = max(0.0, most - before)
        async with self._settled:
            while self.total is not None and self.spent + self._in_flight + reserved > self.total + 1e-9:
                if self._in_flight == 0.0:
                    raise BudgetExhausted(
                        "cost_usd",
                        f"${self.spent:.4f} of ${self.total:g} are spent, and the next run may take "
                        f"${reserved:g}: the same command with a larger --max-cost continues",
                    )
                await self._settled.wait()
            self._in_flight += reserved
        spent: list[float] = []
        try:
            yield spent
        finally:
            async with self._settled:
                self._in_flight -= reserved
                self._in_flight = self._in_flight if self._in_flight > 1e-9 else 0.0
                self.spent += max(0.0, sum(spent) - before)
                self._settled.notify_all()
