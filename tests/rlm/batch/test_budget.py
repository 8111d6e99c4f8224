"""The budget of a whole batch."""

from __future__ import annotations

import asyncio

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.batch.budget import BatchBudget
from rlm.errors import BudgetExhausted


async def test_tasks_that_run_together_share_what_is_left() -> None:
    ledger = BatchBudget(8.0, slots=4, floor=0.1)
    assert [await ledger.reserve(5.0) for _ in range(4)] == pytest.approx([2.0, 2.0, 2.0, 2.0])


async def test_a_task_waits_for_the_others_rather_than_begin_with_too_little() -> None:
    ledger = BatchBudget(1.0, slots=8, floor=0.6)
    first = await ledger.reserve(5.0)
    assert first == 1.0  # alone it may have all of it
    second = asyncio.ensure_future(ledger.reserve(5.0))
    await asyncio.sleep(0)
    assert not second.done()
    await ledger.settle(first, 0.01)
    assert await second == pytest.approx(0.99)


async def test_when_too_little_for_one_call_is_left_it_is_used_up() -> None:
    ledger = BatchBudget(1.0, slots=2, floor=0.3, spent=0.8)
    with pytest.raises(BudgetExhausted, match=r"batch's budget of \$1 is used up .* larger --budget resumes"):
        await ledger.reserve(5.0)


@given(
    budget=st.floats(0.1, 100),
    slots=st.integers(1, 6),
    costs=st.lists(st.tuples(st.floats(0.01, 5), st.floats(0, 1)), min_size=1, max_size=40),
)
def test_no_order_of_tasks_spends_more_than_the_budget(
    budget: float, slots: int, costs: list[tuple[float, float]]
) -> None:
    """Each task wants at most the first number and spends the second's share of what it is given."""

    async def all_tasks() -> float:
        ledger = BatchBudget(budget, slots=slots, floor=0.01)
        todo = iter(costs)

        async def work() -> None:
            for most, used in todo:
                try:
                    share = await ledger.reserve(most)
                except BudgetExhausted:
                    return
                assert 0 < share <= most
                await asyncio.sleep(0)
                await ledger.settle(share, share * used)

        await asyncio.wait_for(asyncio.gather(*(work() for _ in range(slots))), 10)
        return ledger.spent

    assert asyncio.run(all_tasks()) <= budget * (1 + 1e-9)
