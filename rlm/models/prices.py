"""What calls cost a run: by the user's own price where there is one, else by the shipped list."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType

from rlm.models.base import Model, TokenUsage
from rlm.models.facts import ModelFacts
from rlm.models.pricing import price

__all__ = ["Prices"]


class Prices:
    """US dollars throughout; None where a price is not known.
    `facts` are the user's own on models, by name."""

    def __init__(self, facts: Mapping[str, ModelFacts] = MappingProxyType({})) -> None:
        self._facts = facts

    def of(self, model: Model, usage: TokenUsage) -> float | None:
        """What a call of this usage costs."""
        facts = self._facts.get(model.name)
        own = None if facts is None else facts.price(usage)
        return price(model.name, usage) if own is None else own

    def at_most(self, model: Model, prompt_tokens: int, output_tokens: int) -> float | None:
        """What a call may cost whose prompt and reply have so many tokens."""
        return self.of(model, TokenUsage(input_tokens=prompt_tokens, output_tokens=output_tokens))
