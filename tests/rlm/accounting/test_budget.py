"""Test the limits and the ledger of a tree of runs: every expense is reserved first."""

from __future__ import annotations

import asyncio
import math
import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from rlm.accounting.budget import STOP_REASONS, Budget, Reservation
from rlm.errors import BudgetExhausted, ConfigurationError
from rlm.limits import Limits, limit_of_measure
from rlm.playback.recording import Spent


class Clock:
    def __init__(self) -> None:
        self.now = 1_000.0

    def __call__(self) -> float:
        return self.now


def counts_of(budget: Budget) -> dict[str, dict[str, float]]:
    return {name: line for name, line in budget.used().items() if name != "seconds"}


def refusal_of(budget: Budget, *, calls: int = 1, tokens: int = 0, cost_usd: float | None = 0.0) -> str:
    before = counts_of(budget)
    with pytest.raises(BudgetExhausted) as caught:
        budget.reserve(calls=calls, tokens=tokens, cost_usd=cost_usd)
    assert "\n" not in str(caught.value)
    assert f"limits.{limit_of_measure(caught.value.limit)}" in str(caught.value)
    assert counts_of(budget) == before
    return caught.value.limit


def test_the_defaults() -> None:
    assert Limits() == Limits(30, 1, 1_000, 10_000_000, 5.0, 1_800.0, 120.0, 16, 3)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("max_rounds", 0),
        ("max_rounds", True),
        ("max_depth", -1),
        ("max_total_tokens", "many"),
        ("max_cost", math.nan),
        ("max_seconds", math.inf),
        ("max_violations", None),
    ],
)
def test_an_impossible_limit_is_named(name: str, value: object) -> None:
    """One line names the field and the allowed values."""
    with pytest.raises(ConfigurationError, match=rf"^limits\.{name} is .*; give a "):
        Limits(**{name: value})


def test_a_limit_has_a_short_name_too() -> None:
    """Tasks files and journals hold these names."""
    earlier = Limits(
        rounds=2, depth=0, sub_calls=3, tokens=4, cost_usd=0.5, seconds=6, cell_seconds=7, violations=8
    )
    assert earlier == Limits(2, 0, 3, 4, 0.5, 6, 7, max_violations=8)
    assert repr(earlier).startswith("Limits(max_rounds=2, max_depth=0, max_calls=3, max_total_tokens=4")
    assert Limits(**earlier.to_json()) == earlier
    assert list(earlier.to_json())[:6] == ["rounds", "depth", "sub_calls", "tokens", "cost_usd", "seconds"]


@pytest.mark.parametrize(
    ("given", "refusal"),
    [
        ({"rounds": 2, "max_rounds": 3}, "max_rounds is given twice, also as max_rounds"),
        ({"max_iterations": 3}, "there is no limit 'max_iterations': use cell_seconds"),
        ({"max_tokens": 3}, "the run's total is max_total_tokens"),
        ({"money": 3}, "there is no limit 'money': use cell_seconds, child_tokens"),
    ],
)
def test_an_unknown_limit_is_refused_with_the_name_that_was_meant(given: Any, refusal: str) -> None:
    with pytest.raises(ConfigurationError, match=refusal):
        Limits(**given)


def test_zero_is_a_limit_where_it_makes_sense() -> None:
    """Zero forbids sub-RLMs, children, or costs."""
    budget = Budget(Limits(max_depth=0, max_calls=0, max_cost=0))
    assert refusal_of(budget) == "sub_calls"
    assert refusal_of(budget, calls=0, cost_usd=0.000001) == "cost_usd"
    budget.settle(budget.reserve(calls=0, tokens=10, cost_usd=0.0), tokens=10, cost_usd=0.0)


def test_a_call_is_reserved_then_settled() -> None:
    """Before sending, the estimate counts; afterwards, the provider's usage."""
    budget = Budget(Limits(max_calls=2, max_total_tokens=1_000, max_cost=1.0))
    reservation = budget.reserve(tokens=600, cost_usd=0.7)
    assert budget.used()["tokens"] == {"used": 0, "limit": 1_000, "left": 400, "reserved": 600}
    assert refusal_of(budget, tokens=401) == "tokens"
    assert refusal_of(budget, cost_usd=0.31) == "cost_usd"
    budget.settle(reservation, tokens=100, cost_usd=0.1)
    assert budget.used()["tokens"] == {"used": 100, "limit": 1_000, "left": 900, "reserved": 0}
    assert budget.used()["cost_usd"] == {"used": 0.1, "limit": 1.0, "left": 0.9, "reserved": 0}
    assert budget.used()["sub_calls"] == {"used": 1, "limit": 2, "left": 1, "reserved": 0}
    assert budget.remaining()["tokens"] == 900
    assert set(budget.remaining()) == set(budget.used())
    budget.reserve(tokens=900, cost_usd=0.9)
    assert refusal_of(budget) == "sub_calls"


def test_a_release_gives_everything_back_and_may_follow_a_settle() -> None:
    """A call that was never made costs nothing, so `finally: release` is always safe."""
    budget = Budget(Limits(max_calls=1, max_total_tokens=10))
    reservation = budget.reserve(tokens=10, cost_usd=1.0)
    budget.release(reservation)
    budget.release(reservation)
    again = budget.reserve(tokens=10, cost_usd=1.0)
    budget.settle(again, tokens=4, cost_usd=0.5)
    budget.release(again)
    assert budget.remaining()["tokens"] == 6
    with pytest.raises(ValueError, match="settled or released before"):
        budget.settle(again, tokens=4, cost_usd=0.5)


def test_money_does_not_drift() -> None:
    """Ten dimes are exactly a dollar."""
    budget = Budget(Limits(max_cost=1.0))
    for _ in range(10):
        budget.settle(budget.reserve(tokens=1, cost_usd=0.1), tokens=1, cost_usd=0.1)
    assert budget.used()["cost_usd"] == {"used": 1.0, "limit": 1.0, "left": 0, "reserved": 0}
    assert refusal_of(budget, cost_usd=0.000_000_001) == "cost_usd"


def test_with_an_unknown_price_the_token_cap_holds() -> None:
    """The result states that the cost is unknown."""
    budget = Budget(Limits(max_total_tokens=100))
    assert budget.cost_known
    reservation = budget.reserve(tokens=60, cost_usd=None)
    assert not budget.cost_known
    budget.settle(reservation, tokens=60, cost_usd=None)
    assert budget.used()["cost_usd"]["used"] == 0
    assert refusal_of(budget, tokens=41, cost_usd=None) == "tokens"


def test_a_price_unknown_only_afterwards_charges_the_estimate() -> None:
    budget = Budget(Limits())
    budget.settle(budget.reserve(tokens=1, cost_usd=0.25), tokens=1, cost_usd=None)
    assert budget.used()["cost_usd"]["used"] == 0.25
    assert not budget.cost_known


def test_rounds_keep_the_last_one_back() -> None:
    budget = Budget(Limits(max_rounds=3))
    assert [budget.begin_round(), budget.begin_round()] == [1, 2]
    with pytest.raises(BudgetExhausted) as caught:
        budget.begin_round()
    assert caught.value.limit == "rounds"
    budget.take_last_round(tokens=1, cost_usd=0.0)
    assert budget.rounds == 3
    assert budget.remaining()["rounds"] == 0
    with pytest.raises(BudgetExhausted):
        budget.take_last_round(tokens=1, cost_usd=0.0)


def test_ordinary_calls_cannot_eat_the_last_round() -> None:
    """Whatever limit is reached, the root can be asked once more."""
    clock = Clock()
    budget = Budget(Limits(max_total_tokens=1_000, max_cost=1.0, max_seconds=60), clock=clock)
    budget.hold_last_round(tokens=300, cost_usd=0.4)
    assert refusal_of(budget, tokens=701) == "tokens"
    assert refusal_of(budget, cost_usd=0.61) == "cost_usd"
    budget.settle(budget.reserve(tokens=700, cost_usd=0.6), tokens=700, cost_usd=0.6)
    assert refusal_of(budget, tokens=1) == "tokens"
    clock.now += 61
    assert budget.last_round_room() == (300, 0.4)
    last = budget.take_last_round(tokens=300, cost_usd=0.4)
    assert last.amounts == {"sub_calls": 0, "tokens": 300, "cost_usd": 400_000_000}
    budget.settle(last, tokens=250, cost_usd=0.3)
    assert budget.used()["tokens"]["used"] == 950


def test_time_runs_out() -> None:
    """Seconds count from the start of the run."""
    clock = Clock()
    budget = Budget(Limits(max_seconds=60), clock=clock)
    clock.now += 59
    budget.reserve(tokens=1, cost_usd=0.0)
    assert budget.begin_round() == 1
    assert budget.used()["seconds"] == {"used": 59, "limit": 60, "left": 1, "reserved": 0}
    assert budget.seconds_left == 1
    clock.now += 1
    assert budget.seconds_left == 0
    assert refusal_of(budget) == "seconds"
    with pytest.raises(BudgetExhausted) as caught:
        budget.begin_round()
    assert caught.value.limit == "seconds"
    clock.now += 100
    assert budget.remaining()["seconds"] == 0


def test_only_limits_with_under_a_quarter_left_are_low() -> None:
    clock = Clock()
    budget = Budget(Limits(max_rounds=4, max_calls=0, max_total_tokens=100, max_seconds=100), clock=clock)
    budget.settle(budget.reserve(calls=0, tokens=75, cost_usd=0.0), tokens=75, cost_usd=0.0)
    clock.now += 75
    for _ in range(3):
        budget.begin_round()
    assert budget.limits_running_low() == ()
    clock.now += 0.1
    budget.settle(budget.reserve(calls=0, tokens=1, cost_usd=4.0), tokens=1, cost_usd=4.0)
    assert set(budget.limits_running_low()) == {"seconds", "tokens", "cost_usd"}


def test_a_sub_rlm_cannot_outspend_what_is_left() -> None:
    """The tree shares one ledger; each RLM has its own rounds."""
    root = Budget(Limits(max_rounds=2, max_total_tokens=1_000))
    root.hold_last_round(tokens=100, cost_usd=0.0)
    root.begin_round()
    sub = root.branch()
    assert sub.begin_round() == 1
    sub.hold_last_round(tokens=200, cost_usd=0.0)
    assert refusal_of(sub, tokens=701) == "tokens"
    sub.settle(sub.reserve(tokens=700, cost_usd=0.0), tokens=700, cost_usd=0.0)
    assert refusal_of(root, tokens=1) == "tokens"
    sub.close()
    sub.close()
    assert root.remaining()["tokens"] == 200
    assert sub.used()["tokens"] == root.used()["tokens"]
    assert (root.rounds, sub.rounds) == (1, 1)
    root.take_last_round(tokens=100, cost_usd=0.0)


def test_a_sub_rlm_has_no_last_round_that_nobody_has_room_for() -> None:
    """The root may overspend a limit by its one last call. The sub-RLMs may not."""
    root = Budget(Limits(max_total_tokens=1_000))
    root.hold_last_round(tokens=100, cost_usd=0.0)
    subs = [root.branch() for _ in range(3)]
    for sub in subs[:2]:
        sub.hold_last_round(tokens=300, cost_usd=0.0)
        sub.begin_round()
    with pytest.raises(BudgetExhausted):
        subs[2].hold_last_round(tokens=301, cost_usd=0.0)
    with pytest.raises(BudgetExhausted):  # it did not begin, so it has nothing to report
        subs[2].take_last_round(tokens=200, cost_usd=0.0)
    assert subs[0].last_round_room()[0] == 600
    subs[0].settle(subs[0].take_last_round(tokens=600, cost_usd=0.0), tokens=600, cost_usd=0.0)
    with pytest.raises(BudgetExhausted) as caught:
        subs[1].take_last_round(tokens=301, cost_usd=0.0)
    assert caught.value.limit == "tokens"
    subs[1].settle(subs[1].take_last_round(tokens=300, cost_usd=0.0), tokens=300, cost_usd=0.0)
    root.take_last_round(tokens=2_000, cost_usd=0.0)


def test_every_limit_that_can_run_out_has_a_stop_reason() -> None:
    assert set(STOP_REASONS) == set(Budget(Limits()).used())


async def test_500_children_racing_for_the_last_dollar() -> None:
    """The overrun is at most one call's estimate error."""
    budget = Budget(Limits(max_cost=1.0))
    slots = asyncio.Semaphore(16)
    dice = random.Random(7)
    worst_error = 0.002
    refused: list[str] = []

    async def child() -> None:
        async with slots:
            try:
                reservation = budget.reserve(tokens=1_000, cost_usd=0.008)
            except BudgetExhausted as error:
                refused.append(error.limit)
                return
            for _ in range(dice.randrange(1, 9)):
                await asyncio.sleep(0)
            budget.settle(reservation, tokens=1_000, cost_usd=0.008 + dice.choice([worst_error, 0]))

    await asyncio.gather(*(child() for _ in range(500)))
    spent = budget.used()["cost_usd"]["used"]
    assert set(refused) == {"cost_usd"}
    assert 0.9 < spent <= 1.0 + worst_error


operations = st.lists(
    st.tuples(
        st.sampled_from(["reserve", "settle", "release", "hold", "last"]),
        st.integers(0, 40),
        st.integers(0, 20),
        st.integers(0, 3),
    ),
    max_size=80,
)


@given(operations)
def test_however_calls_interleave_the_sums_stay_within_the_limits(
    steps: list[tuple[str, int, int, int]],
) -> None:
    """Used + reserved + held exceeds a limit only through calls that took more than their estimate. The
    ledger agrees with a plain model of it.
    """
    budget = Budget(Limits(max_calls=20, max_total_tokens=200, max_cost=2.0))
    open_calls: list[Reservation] = []
    used_calls = used_tokens = overrun = hold = 0
    taken = False
    for what, amount, error, choice in steps:
        if what == "reserve":
            try:
                open_calls.append(budget.reserve(tokens=amount, cost_usd=amount / 100))
            except BudgetExhausted:
                pass
            else:
                total = used_tokens + hold + sum(call.amounts["tokens"] for call in open_calls)
                assert amount == 0 or total <= 200
        elif what == "hold" and not taken:
            try:
                budget.hold_last_round(tokens=amount, cost_usd=amount / 100)
                hold = amount
            except BudgetExhausted:
                pass
        elif what == "last" and not taken:
            taken = True
            tokens = min(amount, budget.last_round_room()[0])
            open_calls.append(budget.take_last_round(tokens=tokens, cost_usd=tokens / 100))
            hold = 0
        elif what in {"settle", "release"} and open_calls:
            call = open_calls.pop(choice % len(open_calls))
            if what == "settle":
                took = max(0, call.amounts["tokens"] - 10 + error)
                budget.settle(call, tokens=took, cost_usd=took / 100)
                used_tokens += took
                used_calls += call.amounts["sub_calls"]
                overrun += max(0, took - call.amounts["tokens"])
            else:
                budget.release(call)
        reserved = sum(call.amounts["tokens"] for call in open_calls)
        assert used_tokens + reserved + hold <= 200 + overrun
        assert used_calls + sum(call.amounts["sub_calls"] for call in open_calls) <= 20
        report = budget.used()
        assert report["tokens"]["used"] == used_tokens
        assert report["tokens"]["left"] == max(0, 200 - used_tokens - reserved - hold)
        assert report["cost_usd"]["left"] == pytest.approx(report["tokens"]["left"] / 100, abs=1e-9)
        assert report["sub_calls"]["used"] == used_calls


def test_a_shares_time_ends_with_that_of_the_whole() -> None:
    clock = Clock()
    whole = Budget(Limits(max_seconds=100), clock=clock)
    clock.now += 60
    share = whole.share(Limits(max_seconds=70))
    assert share.remaining()["seconds"] == 40
    clock.now += 41
    assert refusal_of(share) == "seconds"


def test_a_share_that_is_restored_is_not_charged_twice() -> None:
    """The whole's account already holds what an earlier process spent."""
    whole = Budget(Limits(max_total_tokens=1_000))
    whole.restore(Spent(calls=2, tokens=300))
    share = whole.share(Limits(max_total_tokens=400))
    share.restore(Spent(calls=2, tokens=300))
    assert share.remaining()["tokens"] == 100
    assert whole.remaining()["tokens"] == 700


@given(data=st.data())
def test_no_shares_overspend_the_whole(data: st.DataObject) -> None:
    """Shares reserve, settle within the reserve, and release in any order."""
    whole = Budget(Limits(max_calls=20, max_total_tokens=1_000, max_cost=1.0))
    shares = [whole.share(Limits(max_calls=9, max_total_tokens=500, max_cost=0.5)) for _ in range(3)]
    shares += [shares[0].branch()]
    open_: list[tuple[Budget, Reservation]] = []
    spent = 0
    for _ in range(data.draw(st.integers(1, 30))):
        if open_ and data.draw(st.booleans()):
            budget, reservation = open_.pop(data.draw(st.integers(0, len(open_) - 1)))
            if data.draw(st.booleans()):
                took = data.draw(st.integers(0, reservation.amounts["tokens"]))
                budget.settle(reservation, tokens=took, cost_usd=0.0)
                spent += took
            else:
                budget.release(reservation)
            continue
        budget = data.draw(st.sampled_from(shares))
        try:
            open_.append((budget, budget.reserve(tokens=data.draw(st.integers(0, 400)), cost_usd=0.01)))
        except BudgetExhausted:
            assert budget.remaining()["tokens"] < 400 or budget.remaining()["sub_calls"] < 1
    assert whole.used()["tokens"]["used"] == spent <= 1_000
    assert all(share.used()["tokens"]["used"] <= 500 for share in shares)
    in_flight = sum(reservation.amounts["tokens"] for _, reservation in open_)
    assert whole.remaining()["tokens"] == 1_000 - spent - in_flight
