"""Estimates what a bench takes, without a model and without spending anything."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from copy import copy

from rlm.bench.arms import Arm, TooLong, sources_of_texts
from rlm.bench.folder import Key
from rlm.bench.item import Item
from rlm.lazy_dataclass import dataclass
from rlm.runtime import RLM

__all__ = ["ArmPlan", "plan_bench"]

_NO_TEXT = "."


@dataclass(frozen=True, slots=True)
class ArmPlan:
    """What one arm takes: runs that have no result yet, calls, tokens, US dollars (None: a price is unknown).
    `too_long` runs ask no model."""

    arm: str
    runs: int
    too_long: int
    chars: int
    calls: int
    tokens: int
    cost_usd: float | None


async def plan_bench(
    rlm: RLM, items: Sequence[Item], arms: Sequence[Arm], repeats: int, done: Collection[Key]
) -> list[ArmPlan]:
    """Return the plan of each arm. Rounds are planned as if children read every part once."""
    return [await _plan_arm(rlm, items, arm, repeats, done) for arm in arms]


async def _plan_arm(
    rlm: RLM, items: Sequence[Item], arm: Arm, repeats: int, done: Collection[Key]
) -> ArmPlan:
    own = copy(rlm)
    own.settings, own.limits = arm.settings(rlm.settings), arm.limits(rlm.limits)
    runs, too_long, contexts, counts = 0, 0, [], []
    for item in items:
        count = sum((item.id, arm.name, repeat) not in done for repeat in range(1, repeats + 1))
        runs += count
        try:
            # Without children, nothing of the text is in a prompt but what the code prints.
            given = None if arm.kind == "code" else arm.give(own, item)
        except TooLong:
            too_long += count
            continue
        if count:
            contexts.append(sources_of_texts([_NO_TEXT]) if given is None else given.sources)
            counts.append(count * arm.attempts)
    plans = list(zip(await own.plan_each(contexts), counts, strict=True))
    costs = [None if plan.cost_usd is None else plan.cost_usd * count for plan, count in plans]
    return ArmPlan(
        arm=arm.name,
        runs=runs,
        too_long=too_long,
        chars=sum(plan.chars * count for plan, count in plans),
        calls=sum(plan.calls * count for plan, count in plans),
        tokens=sum(plan.tokens * count for plan, count in plans),
        cost_usd=None if None in costs else round(sum(filter(None, costs)), 4),
    )
