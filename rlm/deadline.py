"""The run's time as a bound on whatever is being waited for."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rlm.budget import Budget
from rlm.errors import BudgetExhausted

__all__ = ["seconds_left"]


@asynccontextmanager
async def seconds_left(budget: Budget) -> AsyncIterator[None]:
    """What runs inside ends with the run's time: then it is cancelled and BudgetExhausted is raised."""
    try:
        async with asyncio.timeout(budget.seconds_left):
            yield
    except TimeoutError as error:
        limit = budget.limits.seconds
        raise BudgetExhausted(
            "seconds", f"the run's {limit:g} seconds are used up; raise limits.seconds"
        ) from error
