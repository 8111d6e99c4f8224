"""What children would take, told before any is sent: calls, tokens, dollars."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property

from rlm.accounting.budget import Budget
from rlm.accounting.metered_model import estimate
from rlm.models.base import Model
from rlm.models.catalog.prices import Prices
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["BatchForecast", "Forecaster"]

_USUAL_CHUNK = 20_000
_USUAL_ANSWER = 300
_FRAMING = 500
"""Tokens of a child's prompt beside its slice."""
_QUESTION = 1_000
"""Tokens that are kept free beside a slice for a long question."""
_MIN_SHARE = 0.6
_MIN_ANSWER = 10
"""Estimates are made to be too high. A batch is turned away when it surely can't be carried through, not
when it may not: on this share of its estimated prompts, and on answers of no more than a few words."""
_SAMPLE = 20_000


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """What a batch will about take; `cost_usd` is None when the price is not known."""

    calls: int
    tokens: int
    cost_usd: float | None


class Forecaster:
    """Foretells for one run. `prompt_tokens` is what a child's prompt may hold."""

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
        """Of the body's beginning: a sample is enough to plan with."""
        sample = self._body.text(0, min(self._body.chars, _SAMPLE))
        return max(0.5, len(sample) / max(1, estimate(sample)))

    @property
    def fitting_chars(self) -> int:
        """The largest slice that a child's prompt surely holds, its framing and question beside it."""
        return max(1, int((self._prompt_tokens - _FRAMING - _QUESTION) * self.chars_per_token * 0.9))

    def full_pass(self) -> dict[str, float | None]:
        """What reading the whole body would take: `recommended_chunk` (characters), calls, cost_usd."""
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
        """What children over slices of `sizes` characters (questions included) will about take."""
        return self._batch(sizes, 1.0, _USUAL_ANSWER)

    def refusal(self, sizes: Sequence[int]) -> str | None:
        """Why children over slices of `sizes` characters can't all be asked with what is left, and what to
        do instead; None when they may."""
        left = self._budget.remaining()
        calls = int(left["sub_calls"])
        if len(sizes) > calls:
            return (
                f"{len(sizes):,} wanted, but only {calls:,} child calls are left; "
                f"{self._larger_slices(sizes, calls)}"
            )
        usual, least = self.batch(sizes), self._batch(sizes, _MIN_SHARE, _MIN_ANSWER)
        if least.tokens > left["tokens"]:
            return (
                f"{len(sizes):,} children would take about {usual.tokens:,} tokens, but only "
                f"{int(left['tokens']):,} are left; {self._fewer(sizes, left['tokens'] / usual.tokens)}"
            )
        if usual.cost_usd and least.cost_usd and least.cost_usd > left["cost_usd"]:
            return (
                f"{len(sizes):,} children would cost about ${usual.cost_usd:.2f}, but only "
                f"${left['cost_usd']:.2f} is left; "
                f"{self._fewer(sizes, left['cost_usd'] / usual.cost_usd)}"
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

    def _larger_slices(self, sizes: Sequence[int], calls: int) -> str:
        max_chars = -(-sum(sizes) // max(1, calls))
        if calls and sum(sizes) and max_chars <= self.fitting_chars:
            return f"larger slices would do: max_chars={max(1, max_chars):,} makes {calls:,} of them"
        return self._fewer(sizes, calls / len(sizes))

    def _fewer(self, sizes: Sequence[int], share: float) -> str:
        fitting = int(len(sizes) * share)
        if fitting < 1:
            return "finalize from what you have"
        return (
            f"about {fitting:,} of them fit: choose the slices that matter (search, rank), and say so in "
            "the answer"
        )
