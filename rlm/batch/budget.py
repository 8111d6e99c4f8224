"""The budget of a whole batch: each task reserves a share before it starts, and settles it afterwards."""

from __future__ import annotations

import asyncio

from rlm.errors import BudgetExhausted

__all__ = ["BatchBudget"]


class BatchBudget:
    """US dollars for all tasks together; None is no limit. Use it in one event loop only.

    `slots` tasks may run at a time. `floor` is the maximum cost of one call. A task waits for others to
    settle if its share is below `floor`, or below twice the cost of the most expensive task so far.
    """

    def __init__(self, budget: float | None, *, slots: int, floor: float = 0.0, spent: float = 0.0) -> None:
        self.budget = budget
        self.spent = spent
        self._slots = slots
        self._floor = floor
        self._reserved: list[float] = []
        self._max_spent = 0.0
        self._settled = asyncio.Condition()

    async def reserve(self, max_share: float) -> float:
        """Reserve and return a share of at most `max_share` dollars. Waits if other tasks may free some.

        Raises BudgetExhausted if too little is left for one call and no other task is running.
        """
        if self.budget is None:
            return max_share
        async with self._settled:
            while (share := self._share(max_share)) is None:
                await self._settled.wait()
            self._reserved.append(share)
            return share

    async def settle(self, share: float, spent: float) -> None:
        """Release the share of a task that ended, and count what it spent."""
        async with self._settled:
            self.spent += spent
            self._max_spent = max(self._max_spent, spent)
            if self.budget is not None:
                self._reserved.remove(share)
            self._settled.notify_all()

    def _share(self, max_share: float) -> float | None:
        """Return what a task may reserve now, or None if it has to wait."""
        assert self.budget is not None
        free = self.budget - self.spent - sum(self._reserved)
        if not self._reserved and free < self._floor:
            raise BudgetExhausted(
                "budget",
                f"the batch's budget of ${self.budget:g} is used up (${self.spent:.4f} spent): the same "
                "command with a larger --budget resumes the batch",
            )
        enough = min(max_share, max(self._floor, 2 * self._max_spent))
        share = min(max_share, free / max(1, self._slots - len(self._reserved)))
        if share >= enough:
            return share
        return None if self._reserved else min(max_share, free)
