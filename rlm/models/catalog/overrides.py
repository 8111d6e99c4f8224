"""What a user knows of a model that the shipped tables don't, or know differently: its window, its price."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from rlm.errors import ConfigurationError
from rlm.models.base import ModelWindow, TokenUsage

__all__ = ["ModelFacts"]

_SIZES = ("window", "output")
_PRICES = ("input_price", "output_price", "cached_price")
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`window` and `output` are tokens: of prompt and reply together, and of a reply. Prices are US dollars
    for a million tokens; `cached_price` is for input that the provider had kept, None: as other input."""

    window: int | None = None
    output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None

    @classmethod
    def from_table(cls, path: str, table: object) -> ModelFacts:
        """The facts in a table. Raises ConfigurationError naming the key, which begins with `path`."""
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{path} is {table!r}: make it a table")
        for key, value in table.items():
            if key not in (*_SIZES, *_PRICES):
                known = ", ".join((*_SIZES, *_PRICES))
                raise ConfigurationError(f"{path}.{key} is no setting: use one of {known}")
            if key in _SIZES and not (type(value) is int and value > 0):
                raise ConfigurationError(f"{path}.{key} is {value!r}: give a whole number of tokens above 0")
            if key in _PRICES and not (type(value) in (int, float) and 0 <= value < math.inf):
                raise ConfigurationError(f"{path}.{key} is {value!r}: give dollars for a million tokens")
        if ("input_price" in table) != ("output_price" in table) or (
            "cached_price" in table and "input_price" not in table
        ):
            raise ConfigurationError(f"{path} has half a price: give input_price and output_price")
        return cls(**table)

    def window_beside(self, shipped: ModelWindow) -> ModelWindow | None:
        """The window with these facts put over the shipped ones; None when there are none."""
        if self.window is None and self.output is None:
            return None
        context = self.window or shipped.context
        return ModelWindow(context=context, output=min(self.output or shipped.output, context))

    def price(self, usage: TokenUsage) -> float | None:
        """US dollars for a call's usage; None when no price is given."""
        if self.input_price is None or self.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_price = self.input_price if self.cached_price is None else self.cached_price
        fresh = usage.input_tokens - cached
        return (
            fresh * self.input_price + cached * cached_price + usage.output_tokens * self.output_price
        ) / _MILLION
