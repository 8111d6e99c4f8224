"""Estimates the cost of a run without spending anything."""

from __future__ import annotations

from dataclasses import asdict, dataclass, replace
from typing import Any

from rlm.accounting.budget import Budget
from rlm.accounting.forecast import Forecaster
from rlm.models.base import Model, is_extractive, price_share
from rlm.models.catalog.info import Prices
from rlm.results import Strategy
from rlm.sandbox.text.body import Body
from rlm.settings import Limits

__all__ = ["RunPlan", "plan_run"]

_ROUNDS = 5
"""Load, orient, compute, recurse, converge."""
_ROUND_TOKENS = 1_500
"""Tokens that a round adds to the conversation: the block and its output."""
_ROOT_PROMPT = 3_500
_DIRECT_FRAMING = 500
_DIRECT_ANSWER = 500
_SECONDS_A_REPLY = 8.0
_SECONDS_A_CHILD = 5.0
_SECONDS_A_BATCH = 3_600.0
"""Providers promise 24 hours for a batch, and say that most end within one."""


@dataclass(frozen=True, slots=True)
class RunPlan:
    """A forecast of a run that reads the whole input once: calls of all models, tokens in and out, US dollars
    (None: a price is not known), seconds. `child_tokens` is the most that a child's prompt may hold, and
    `chunk_chars` the characters of the input that fit it. A question that a search settles takes far less."""

    strategy: Strategy
    model: str
    sub_model: str
    chars: int
    documents: int
    calls: int
    tokens: int
    cost_usd: float | None
    seconds: float
    child_tokens: int = 0
    chunk_chars: int = 0

    def plus(self, other: RunPlan) -> RunPlan:
        """Return the plan of both runs, one after the other, over the same input."""
        costs = (self.cost_usd, other.cost_usd)
        return replace(
            self,
            strategy="rlm" if "rlm" in (self.strategy, other.strategy) else "direct",
            calls=self.calls + other.calls,
            tokens=self.tokens + other.tokens,
            cost_usd=None if None in costs else round(sum(cost or 0.0 for cost in costs), 6),
            seconds=self.seconds + other.seconds,
        )

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
        return asdict(self)


def plan_run(
    model: Model,
    sub_model: Model,
    body: Body,
    *,
    strategy: Strategy,
    limits: Limits,
    prompt_tokens: int,
    prices: Prices,
) -> RunPlan:
    """Plan a run over `body`. `prompt_tokens` is the most that a child's prompt may hold."""
    seconds_a_reply = _SECONDS_A_BATCH if price_share(model) < 1 else _SECONDS_A_REPLY
    seconds_a_wave = _SECONDS_A_BATCH if price_share(sub_model) < 1 else _SECONDS_A_CHILD
    forecaster = Forecaster(
        sub_model, body, budget=Budget(limits), prices=prices, prompt_tokens=prompt_tokens
    )
    if strategy == "direct":
        prompt = int(body.chars / forecaster.chars_per_token) + _DIRECT_FRAMING
        calls, tokens, seconds = 1, prompt + _DIRECT_ANSWER, seconds_a_reply
        cost = prices.at_most(model, prompt, _DIRECT_ANSWER)
    else:
        _, children = forecaster.full_pass()
        rounds = min(_ROUNDS, limits.max_rounds)
        # The prompt of every round repeats the rounds before it.
        prompts = sum(_ROOT_PROMPT + number * _ROUND_TOKENS for number in range(rounds))
        replies = rounds * _ROUND_TOKENS // 2
        root = prices.at_most(model, prompts, replies)
        calls = rounds + children.calls
        tokens = prompts + replies + children.tokens
        cost = None if root is None or children.cost_usd is None else root + children.cost_usd
        waves = -(-children.calls // limits.concurrency)
        seconds = rounds * seconds_a_reply + waves * seconds_a_wave
    return RunPlan(
        strategy=strategy,
        model=model.name,
        sub_model=sub_model.name,
        chars=body.chars,
        documents=len(body.documents),
        calls=calls,
        tokens=tokens,
        cost_usd=None if cost is None else round(cost, 6),
        seconds=0.0 if is_extractive(model) else seconds,
        child_tokens=prompt_tokens,
        chunk_chars=forecaster.fitting_chars,
    )
