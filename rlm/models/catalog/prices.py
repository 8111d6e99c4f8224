"""What a call cost, in US dollars, from price data shipped with genai-prices: no network."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType
from typing import TYPE_CHECKING

from rlm.errors import ConfigurationError
from rlm.models.base import Model, TokenUsage
from rlm.models.catalog.names import ModelName, parse_name
from rlm.models.catalog.overrides import ModelFacts

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

__all__ = ["Prices", "price"]


def price(model_name: str, usage: TokenUsage) -> float | None:
    """US dollars for one call's `usage` at today's list price of `model_name` (any form that `resolve`
    takes). Sum the prices of calls, not their tokens: some models charge long prompts a higher rate.

    0.0 for models that cost nothing (`extractive`, `scripted:`, `replay:`), None where the price is not
    known: a local server, a model that the data lacks, a name of no known form.
    """
    try:
        name = parse_name(model_name)
    except ConfigurationError:
        return None
    if name.provider in ("extractive", "scripted", "replay"):
        return 0.0
    return _reckoned(name, usage)


@lru_cache(maxsize=1024)
def _reckoned(name: ModelName, usage: TokenUsage) -> float | None:
    """Remembered, because it takes longer than to assemble a prompt, and the calls of a batch are alike."""
    listed = _listed(name)
    if listed is None:
        return None
    from genai_prices import Usage

    cached = min(usage.cached_tokens, usage.input_tokens)
    tokens = Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=min(usage.cache_write_tokens, usage.input_tokens - cached),
        output_tokens=usage.output_tokens,
    )
    return float(listed.model.calc_price(tokens, listed.provider).total_price)


@lru_cache(maxsize=256)
def _listed(name: ModelName) -> PriceCalculation | None:
    """A model's entry in the data, as a calculation gives it: looking it up takes longer than to reckon."""
    # Half a second to import: nobody should pay it before the first priced call.
    from genai_prices import Usage, calc_price

    nothing = Usage(input_tokens=1, output_tokens=1)
    try:
        if name.base_url is not None:
            return calc_price(nothing, name.model, provider_api_url=name.base_url)
        return calc_price(nothing, name.model, provider_id=name.provider)
    except LookupError:  # no such provider or model in the data
        return None


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
