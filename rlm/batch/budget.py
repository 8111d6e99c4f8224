"""What a whole batch may spend: every task is given a share before it begins, and settles after."""

from __future__ import annotations

import asyncio

from rlm.errors import BudgetExhausted

__all__ = ["BatchBudget"]


class BatchBudget:
    """US dollars for all tasks together. None is no limit. Belongs to one event loop.

    `slots` tasks may run at a time. No task begins with less than `floor` (what one call may cost), nor with
    less than twice what the dearest so far took, while waiting for others to settle would give it more.
    """

    def __init__(self, budget: float | None, *, slots: int, floor: float = 0.0, spent: float = 0.0) -> None:
        self.budget = budget
        self.spent = spent
        self._slots = slots
        self._floor = floor
        self._held: list[float] = []
        self._dearest = 0.0
        self._settled = asyncio.Condition()

    async def reserve(self, most: float) -> float:
        """A share of at most `most` dollars, held from here on; waits for others to settle where that gives
        more. Raises BudgetExhausted when too little is left for one call and nobody is left to settle."""
        if self.budget is None:
            return most
        async with self._settled:
            while (share := self._share(most)) is None:
                await self._settled.wait()
            self._held.append(share)
            return share

    async def settle(self, share: float, spent: float) -> None:
        """A task that was given `share` is over and took `spent`."""
        async with self._settled:
            self.spent += spent
            self._dearest = max(self._dearest, spent)
            if self.budget is not None:
                self._held.remove(share)
            self._settled.notify_all()

    def _share(self, most: float) -> float | None:
        """What a task may have now; None when it is to wait."""
        assert self.budget is not None
        free = self.budget - self.spent - sum(self._held)
        if not self._held and free < self._floor:
            raise BudgetExhausted(
                "budget",
                f"the batch's budget of ${self.budget:g} is used up (${self.spent:.4f} spent): the same "
                "command with a larger --budget goes on",
            )
        wanted = min(most, max(self._floor, 2 * self._dearest))
        share = min(most, free / max(1, self._slots - len(self._held)))
        if share >= wanted:
            return share
        return None if self._held else min(most, free)
