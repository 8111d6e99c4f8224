"""Estimates the calls, tokens and dollars of children before any is sent."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rlm.accounting.budget import Budget
from rlm.accounting.metered_model import estimate
from rlm.models.base import Model
from rlm.models.catalog.prices import Prices
from rlm.prompts.templates import table
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["BatchForecast", "Forecaster"]

_USUAL_CHUNK = 20_000
_USUAL_ANSWER = 300
_FRAMING = 500
"""Tokens of a child's prompt besides its slice."""
_QUESTION = 1_000
"""Tokens that are kept free for a long question."""
_MIN_SHARE = 0.6
_MIN_ANSWER = 10
"""Estimates are too high on purpose, so a batch is refused only when it surely cannot be paid for: by this
share of its estimated prompts, and with answers of a few words."""
_SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """The estimate for a batch. `cost_usd` is None when the price is not known."""

    calls: int
    tokens: int
    cost_usd: float | None


class Forecaster:
    """Estimates for one run. `prompt_tokens` is the most that a child's prompt may hold."""

    def __init__(
        self, model: Model, body: Body, *, budget: Budget, prices: Prices, prompt_tokens: int
    ) -> None:
        self._model = model
        self._body = body
        self._budget = budget
        self._prices = prices
        self._prompt_tokens = prompt_tokens

    @cached_property
    def chars_per_token(self) -> float:
        """Measure the beginning of the body: a sample is enough to plan with."""
        sample = self._body.text(0, min(self._body.chars, _SAMPLE))
        return max(0.5, len(sample) / max(1, estimate(sample)))

    @property
    def fitting_chars(self) -> int:
        """Return the size of the largest slice that surely fits a child's prompt."""
        return max(1, int((self._prompt_tokens - _FRAMING - _QUESTION) * self.chars_per_token * 0.9))

    def full_pass(self) -> dict[str, float | None]:
        """Estimate a pass over the whole body: `recommended_chunk` (characters), calls, cost_usd."""
        chars = self._body.chars
        if chars == 0:
            return {"recommended_chunk": 0, "calls": 0, "cost_usd": 0.0}
        # A tenth of the calls is kept for what the pass turns up.
        calls = max(1, int(self._budget.remaining()["sub_calls"] * 0.9))
        recommended = min(self.fitting_chars, max(_USUAL_CHUNK, -(-chars // calls)))
        passes = -(-chars // recommended)
        prompt_tokens = int(min(recommended, chars) / self.chars_per_token) + _FRAMING
        cost = self._prices.at_most(self._model, prompt_tokens, _USUAL_ANSWER)
        return {
            "recommended_chunk": recommended,
            "calls": passes,
            "cost_usd": None if cost is None else round(cost * passes, 4),
        }

    def batch(self, sizes: Sequence[int]) -> BatchForecast:
        """Estimate children over slices of `sizes` characters, questions included."""
        return self._batch(sizes, 1.0, _USUAL_ANSWER)

    def refusal(self, sizes: Sequence[int]) -> str | None:
        """Say why the budget left does not allow children over slices of `sizes` characters, and what to do
        instead. Return None if it does."""
        words = table("feedback.toml")["forecast"]
        left = self._budget.remaining()
        calls = int(left["sub_calls"])
        if len(sizes) > calls:
            instead = self._suggest_larger(sizes, calls)
            return str(words["calls"].format(wanted=f"{len(sizes):,}", left=f"{calls:,}", instead=instead))
        usual, least = self.batch(sizes), self._batch(sizes, _MIN_SHARE, _MIN_ANSWER)
        if least.tokens > left["tokens"]:
            return str(
                words["tokens"].format(
                    wanted=f"{len(sizes):,}",
                    tokens=f"{usual.tokens:,}",
                    left=f"{int(left['tokens']):,}",
                    instead=self._suggest_fewer(sizes, left["tokens"] / usual.tokens),
                )
            )
        if usual.cost_usd and least.cost_usd and least.cost_usd > left["cost_usd"]:
            return str(
                words["cost"].format(
                    wanted=f"{len(sizes):,}",
                    cost=f"{usual.cost_usd:.2f}",
                    left=f"{left['cost_usd']:.2f}",
                    instead=self._suggest_fewer(sizes, left["cost_usd"] / usual.cost_usd),
                )
            )
        return None

    def _batch(self, sizes: Sequence[int], share: float, answer: int) -> BatchForecast:
        if not sizes:
            return BatchForecast(0, 0, 0.0)
        slices = sum(sizes) / self.chars_per_token / len(sizes)
        prompt = int((slices + _FRAMING) * share)
        cost = self._prices.at_most(self._model, prompt, answer)
        return BatchForecast(
            len(sizes), (prompt + answer) * len(sizes), None if cost is None else cost * len(sizes)
        )

    def _suggest_larger(self, sizes: Sequence[int], calls: int) -> str:
        max_chars = -(-sum(sizes) // max(1, calls))
        if calls and sum(sizes) and max_chars <= self.fitting_chars:
            larger = table("feedback.toml")["forecast"]["larger"]
            return str(larger.format(max_chars=f"{max(1, max_chars)}", calls=f"{calls:,}"))
        return self._suggest_fewer(sizes, calls / len(sizes))

    def _suggest_fewer(self, sizes: Sequence[int], share: float) -> str:
        words = table("feedback.toml")["forecast"]
        fitting = int(len(sizes) * share)
        if fitting < 1:
            return str(words["none"])
        return str(words["fewer"].format(count=f"{fitting:,}"))
