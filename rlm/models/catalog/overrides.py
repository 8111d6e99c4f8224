"""A user's own facts about a model, which override the shipped windows and prices."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from rlm.errors import ConfigurationError
from rlm.models.base import ModelWindow, TokenUsage

__all__ = ["ModelFacts"]

_SIZES = ("window", "output", "child_tokens")
_PRICES = ("input_price", "output_price", "cached_price")
_FOLDER_MAY_SET = _SIZES
"""What `rlm.toml` of a folder that is not trusted may set. A price of 0 would lift the limit of the cost."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`window` counts the tokens of prompt and reply together, `output` those of a reply. `child_tokens` are
    the most that the prompt of a child may hold, if the run has no such limit. Prices are US dollars per
    million tokens. `cached_price` is for input from the provider's cache; None means the price of
    other input."""

    window: int | None = None
    output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    child_tokens: int | None = None

    @classmethod
    def from_table(cls, path: str, table: object) -> ModelFacts:
        """Build the facts from a table. Raises ConfigurationError, which names the key with `path` before
        it."""
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

    @classmethod
    def split_for_folder(
        cls, tables: Mapping[str, Mapping[str, Any]]
    ) -> tuple[dict[str, dict[str, Any]], tuple[str, ...]]:
        """Return the part of checked tables that a folder may set, and the names of the other keys."""
        allowed = {
            name: {key: value for key, value in table.items() if key in _FOLDER_MAY_SET}
            for name, table in tables.items()
        }
        refused = {key for table in tables.values() for key in table if key not in _FOLDER_MAY_SET}
        return allowed, tuple(sorted(refused))

    def apply_to_window(self, shipped: ModelWindow) -> ModelWindow | None:
        """Return the shipped window with these facts applied; None when they set no size."""
        if self.window is None and self.output is None:
            return None
        context = self.window or shipped.context
        # A window alone says nothing of the reply. A reply of its size would leave no room for a prompt.
        output = self.output or min(shipped.output, max(1, context // 4))
        return ModelWindow(context=context, output=min(output, context))

    def price(self, usage: TokenUsage) -> float | None:
        """Return the US dollars for a call's usage; None when no price is set."""
        if self.input_price is None or self.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_price = self.input_price if self.cached_price is None else self.cached_price
        fresh = usage.input_tokens - cached
        return (
            fresh * self.input_price + cached * cached_price + usage.output_tokens * self.output_price
        ) / _MILLION
