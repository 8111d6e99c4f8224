"""Prices of calls in US dollars, from the data that genai-prices ships. Uses no network."""

from __future__ import annotations

import os
from collections.abc import Mapping
from functools import lru_cache
from types import MappingProxyType

from rlm.errors import ConfigurationError
from rlm.models.base import Model, TokenUsage, price_share
from rlm.models.catalog.addresses import is_private_server
from rlm.models.catalog.names import ModelName, parse_name
from rlm.models.catalog.overrides import ModelFacts, facts_for
from rlm.models.catalog.server_facts import facts_of_name
from rlm.models.catalog.windows import find_listing
from rlm.models.registry import OFFLINE, PROVIDERS

__all__ = ["Prices", "price"]


def price(model_name: str, usage: TokenUsage) -> float | None:
    """Return the US dollars for one call's `usage` at today's list price. `model_name` has any form that
    `resolve` supports. Sum the prices of calls, not their tokens: some models charge long prompts a higher
    rate.

    Returns 0.0 for offline models (`extractive`, `scripted:`, `replay:`) and for servers of the user's own,
    which are on this machine or in a private network. A price that the provider reported in this process goes
    before the list. Returns None where the price is unknown: another server, a model that the data lacks, an
    unknown form of name.
    """
    try:
        name = parse_name(model_name)
    except ConfigurationError:
        return None
    if name.provider in OFFLINE or is_private_server(name.provider, name.base_url, os.environ):
        return 0.0
    facts = facts_of_name(model_name)
    reported = None if facts is None else facts.price(usage)
    return _compute_price(name, usage) if reported is None else reported


@lru_cache(maxsize=1024)
def _compute_price(name: ModelName, usage: TokenUsage) -> float | None:
    """Compute a list price. Cached: it takes longer than assembling a prompt, and the calls of a batch are
    alike."""
    if name.base_url is not None:
        listed = find_listing(name.model, None, name.base_url)
    else:
        listed = find_listing(name.model, PROVIDERS[name.provider].price_list)
    if listed is None:
        return None
    from genai_prices import Usage

    cached = min(usage.cached_tokens, usage.input_tokens)
    written = min(usage.cache_write_tokens, usage.input_tokens - cached)
    tokens = Usage(
        input_tokens=usage.input_tokens,
        cache_read_tokens=cached,
        cache_write_tokens=written,
        cache_write_1h_tokens=min(usage.cache_write_1h_tokens, written),
        output_tokens=usage.output_tokens,
    )
    return float(listed.model.calc_price(tokens, listed.provider).total_price)


class Prices:
    """Prices of calls in US dollars; None where unknown. `facts` are the user's own prices, by model name."""

    def __init__(self, facts: Mapping[str, ModelFacts] = MappingProxyType({})) -> None:
        self._facts = facts

    def of(self, model: Model, usage: TokenUsage) -> float | None:
        """Return the price of a call with this usage: a share of it for a model that waits in batches."""
        facts = facts_for(model.name, self._facts)
        own = None if facts is None else facts.price(usage)
        full = price(model.name, usage) if own is None else own
        return None if full is None else full * price_share(model)

    def at_most(self, model: Model, prompt_tokens: int, output_tokens: int) -> float | None:
        """Return the highest price of a call with so many tokens of prompt and reply."""
        return self.of(model, TokenUsage(input_tokens=prompt_tokens, output_tokens=output_tokens))
