"""Estimates the calls, tokens and dollars of children before any is sent."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cached_property

from rlm.accounting.budget import Budget
from rlm.accounting.metered_model import estimate
from rlm.models.base import Model
from rlm.models.catalog.info import Prices
from rlm.prompts.templates import table
from rlm.sandbox.text.body import Body

__all__ = ["BatchForecast", "Forecaster"]

_USUAL_ANSWER = 300
_FRAMING = 500
"""Tokens of a child's prompt besides its slice."""
_QUESTION = 1_000
"""Tokens that are kept free for a long question."""
_MIN_SHARE = 0.6
_MIN_ANSWER = 10
"""Estimates are too high on purpose, so a batch is refused only when it surely cannot be paid for: by this
share of its estimated prompts, and with answers of a few words."""
_SAMPLES, _SAMPLE = 8, 4_000
"""Stretches of the body that are measured, evenly spread, and the characters of each."""


@dataclass(frozen=True, slots=True)
class BatchForecast:
    """The estimate for a batch. `cost_usd` is None when the price is not known."""

    calls: int
    tokens: int
    cost_usd: float | None


class Forecaster:
    """Estimates for one run.

    `prompt_tokens` is the most that a child's prompt may hold, if the model's window leaves room for a reply
    of `output_tokens`. `factor` returns the model's own tokens for each estimated one.
    """

    def __init__(
        self,
        model: Model,
        body: Body,
        *,
        budget: Budget,
        prices: Prices,
        prompt_tokens: int,
        output_tokens: int = 0,
        factor: Callable[[], float] = lambda: 1.0,
    ) -> None:
        self._model = model
        self._body = body
        self._budget = budget
        self._prices = prices
        self._prompt_tokens = min(prompt_tokens, model.window.context - output_tokens)
        self._factor = factor

    @cached_property
    def _densities(self) -> list[tuple[int, int]]:
        """Measure stretches of the body: their characters, and their estimated tokens."""
        chars = self._body.chars
        step = max(_SAMPLE, -(-chars // _SAMPLES))
        stretches = [(start, min(chars, start + _SAMPLE)) for start in range(0, chars, step)]
        return [(end - start, max(1, estimate(self._body.text(start, end)))) for start, end in stretches]

    @cached_property
    def chars_per_token(self) -> float:
        """Return the characters of an estimated token, on average: samples are enough to plan with."""
        chars = sum(chars for chars, _ in self._densities)
        return max(0.5, chars / max(1, sum(tokens for _, tokens in self._densities)))

    @property
    def fitting_chars(self) -> int:
        """Return the size of the largest slice that surely fits a child's prompt, wherever it is taken."""
        least = min(
            (chars / tokens for chars, tokens in self._densities[:-1] or self._densities), default=1.0
        )
        room = self._prompt_tokens - (_FRAMING + _QUESTION)
        return max(1, int(room / self._factor() * max(0.25, least) * 0.9))

    def full_pass(self) -> tuple[int, BatchForecast]:
        """Return the characters of a chunk for a pass over the whole body, and the estimate of its calls."""
        chars, chunk = self._body.chars, self.fitting_chars if self._body.chars else 0
        sizes = [min(chunk, chars - start) for start in range(0, chars, chunk or 1)]
        return chunk, self.batch(sizes)

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
            name, form, wanted, most = "tokens", ",.0f", float(usual.tokens), left["tokens"]
        elif usual.cost_usd and least.cost_usd and least.cost_usd > left["cost_usd"]:
            name, form, wanted, most = "cost", ".2f", usual.cost_usd, left["cost_usd"]
        else:
            return None
        shown = {name: f"{wanted:{form}}", "left": f"{most:{form}}"}
        instead = self._suggest_fewer(sizes, most / wanted)
        return str(words[name].format(wanted=f"{len(sizes):,}", instead=instead, **shown))

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
