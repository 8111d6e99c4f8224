"""Test that a call waits for the calls in flight whose reservations are in its way."""

from __future__ import annotations

import asyncio
from dataclasses import dataclass

from hypothesis import given, settings
from hypothesis import strategies as st

from rlm.accounting.budget import Budget
from rlm.errors import BudgetExhausted
from rlm.settings import Limits


async def test_a_sub_rlm_waits_to_hold_its_last_round() -> None:
    budget = Budget(Limits(max_total_tokens=1_000))
    first = budget.reserve(tokens=800, cost_usd=0.0)
    branch = budget.branch()
    holding = asyncio.ensure_future(branch.hold_last_round_when_settled(tokens=300, cost_usd=0.0))
    await asyncio.sleep(0.01)
    assert not holding.done()
    budget.release(first)
    await asyncio.wait_for(holding, 1)
    assert budget.remaining()["tokens"] == 700


async def test_a_cancelled_wait_leaves_nothing_behind() -> None:
    budget = Budget(Limits(max_total_tokens=1_000))
    first = budget.reserve(tokens=800, cost_usd=0.0)
    waits = [asyncio.ensure_future(budget.reserve_when_settled(tokens=800, cost_usd=0.0)) for _ in range(2)]
    await asyncio.sleep(0.01)
    waits[0].cancel()
    budget.release(first)
    assert (await asyncio.wait_for(waits[1], 1)).amounts["tokens"] == 800
    assert budget.remaining()["tokens"] == 200


@dataclass(frozen=True)
class Call:
    """A call of one of the budgets: what it reserves, what it takes, and for how many turns."""

    budget: int
    reserved: int
    share: float
    turns: int


CALLS = st.builds(Call, st.integers(0, 3), st.integers(0, 400), st.floats(0, 1), st.integers(0, 5))


@settings(max_examples=200)
@given(calls=st.lists(CALLS, min_size=1, max_size=40), held=st.integers(0, 300))
def test_calls_never_overspend_never_hang_and_run_if_they_fit(calls: list[Call], held: int) -> None:
    """A refused call did not fit beside what was spent and held, whatever was in flight."""

    async def race() -> None:
        whole = Budget(Limits(max_calls=1_000, max_total_tokens=1_000))
        whole.hold_last_round(tokens=held, cost_usd=0.0)
        share = whole.share(Limits(max_calls=1_000, max_total_tokens=600))
        budgets = [whole, whole.branch(), share, share.branch()]
        spent = {"whole": 0, "share": 0}

        async def run(call: Call) -> None:
            budget = budgets[call.budget]
            try:
                reservation = await budget.reserve_when_settled(tokens=call.reserved, cost_usd=0.0)
            except BudgetExhausted:
                is_over = spent["whole"] + held + call.reserved > 1_000
                is_over_share = call.budget >= 2 and spent["share"] + call.reserved > 600
                assert is_over or is_over_share
                return
            for _ in range(call.turns):
                await asyncio.sleep(0)
            took = int(call.reserved * call.share)
            budget.settle(reservation, tokens=took, cost_usd=0.0)
            spent["whole"] += took
            spent["share"] += took * (call.budget >= 2)
            assert whole.used()["tokens"]["used"] == spent["whole"] <= 1_000 - held
            assert share.used()["tokens"]["used"] == spent["share"] <= 600

        await asyncio.wait_for(asyncio.gather(*map(run, calls)), 10)
        assert whole.remaining()["tokens"] == 1_000 - held - spent["whole"]

    asyncio.run(race())
