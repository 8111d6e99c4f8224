"""What a user says of a model: its window and prices, and what each of its calls asks for."""

from __future__ import annotations

import difflib
import math
from collections.abc import Mapping
from dataclasses import field
from typing import Any

from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass
from rlm.models.base import ModelWindow, TokenUsage
from rlm.models.call_settings import SETTING_KEYS, CallSettings
from rlm.models.catalog.names import parse_name
from rlm.models.catalog.server_facts import price_at

__all__ = ["ModelFacts", "facts_for"]

_SIZES = ("window", "output", "child_tokens")
_PRICES = ("input_price", "output_price", "cached_price")
_SIGHT = "sees"
_CALLS = tuple(key for key in SETTING_KEYS if key not in _SIZES)
_FOLDER_MAY_SET = (*_SIZES, "effort", "thinking", "temperature", "seed")
"""What `rlm.toml` of a folder may set. A price of 0 would lift the limit of the cost. A
body or a header could send the texts to another account, or keep them with the provider."""
_KEYS = (*_SIZES, *_PRICES, _SIGHT, *_CALLS)
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """`window` counts the tokens of prompt and reply together, `output` those of a reply. `child_tokens` are
    the most that the prompt of a child may hold, if the run has no such limit. Prices are US dollars per
    million tokens. `cached_price` is for input from the provider's cache; None means the price of other
    input. `sees` tells whether the model takes pictures. `calls` is what each call asks for."""

    window: int | None = None
    output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    child_tokens: int | None = None
    sees: bool | None = None
    calls: CallSettings = field(default_factory=CallSettings)

    @classmethod
    def from_table(cls, path: str, table: object) -> ModelFacts:
        """Build the facts from a table. Raises ConfigurationError, which names the key with `path` before
        it."""
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{path} is {table!r}: make it a table")
        for key, value in table.items():
            if key not in _KEYS:
                close = difflib.get_close_matches(key, _KEYS, 1, 0.6)
                meant = f", did you mean {close[0]}?" if close else ""
                known = ", ".join(_KEYS)
                raise ConfigurationError(f"{path}.{key} is no setting{meant}: use one of {known}")
            if key in _SIZES and not (type(value) is int and value > 0):
                raise ConfigurationError(f"{path}.{key} is {value!r}: give a whole number of tokens above 0")
            if key == _SIGHT and not isinstance(value, bool):
                raise ConfigurationError(f"{path}.{key} is {value!r}: give true or false")
            if key in _PRICES and not (type(value) in (int, float) and 0 <= value < math.inf):
                raise ConfigurationError(f"{path}.{key} is {value!r}: give dollars for a million tokens")
        if ("input_price" in table) != ("output_price" in table) or (
            "cached_price" in table and "input_price" not in table
        ):
            raise ConfigurationError(f"{path} has half a price: give input_price and output_price")
        asked = {key: value for key, value in table.items() if key == "output" or key in _CALLS}
        facts = {key: value for key, value in table.items() if key not in _CALLS}
        return cls(**facts, calls=CallSettings.from_table(path, asked))

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
        """Return the shipped window with these facts applied; None when they set none of it. It is not
        `known` if they set the output alone and the shipped one is a guess."""
        if self.window is None and self.output is None and self.sees is None:
            return None
        return shipped.updated(self.window, self.output, self.sees)

    def price(self, usage: TokenUsage) -> float | None:
        """Return the US dollars for a call's usage; None when no price is set."""
        price = price_at(usage, self.input_price, self.output_price, self.cached_price)
        return None if price is None else price / _MILLION


def facts_for(name: str, facts: Mapping[str, ModelFacts]) -> ModelFacts | None:
    """Return the user's facts about the model with this name, however the table and the name spell it."""
    if name in facts or not facts:
        return facts.get(name)
    try:
        wanted = parse_name(name).canonical
        return next((facts[key] for key in facts if parse_name(key).canonical == wanted), None)
    except ConfigurationError:
        return None
