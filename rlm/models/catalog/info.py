"""What is known of a model: its window, its sight, its prices. The user's word goes before the server's, that
before what the catalogue ships, field by field. Uses no network."""

from __future__ import annotations

import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from functools import lru_cache
from types import MappingProxyType
from typing import Any

from rlm.errors import ConfigurationError
from rlm.models.base import Model, ModelWindow, TokenUsage, price_share
from rlm.models.call_settings import SETTING_KEYS, CallSettings, did_you_mean
from rlm.models.catalog.addresses import is_private_server
from rlm.models.catalog.families import family_of, sees
from rlm.models.catalog.names import parse_name
from rlm.models.catalog.prices import cost, find_listing
from rlm.models.registry import OFFLINE, PROVIDERS

__all__ = ["DEFAULT_WINDOW", "ModelInfo", "Prices", "info_for", "price", "reported_info", "window_of"]

DEFAULT_WINDOW = ModelWindow(context=128_000, output=8_000, known=False)
_SIZES = ("window", "output", "child_tokens")
_PRICES = ("input_price", "output_price", "cached_price")
_FACTS = (*_SIZES, *_PRICES, "sees")
_CALLS = tuple(key for key in SETTING_KEYS if key not in _SIZES)
_KEYS = (*_FACTS, *_CALLS)
_FOLDER_MAY_SET = (*_SIZES, "effort", "thinking", "temperature", "seed")
"""What `rlm.toml` of a folder may set. A price of 0 would lift the limit of the cost. A
body or a header could send the texts to another account, or keep them with the provider."""
_MILLION = 1_000_000


@dataclass(frozen=True, slots=True)
class ModelInfo:
    """What a user or a server says of a model; None where it says nothing.

    `window` counts the tokens of prompt and reply together, `output` those of a reply. Prices are US dollars
    for a million tokens. `cached_price` is for input from the provider's cache; None means the price of other
    input. `sees` tells whether the model takes pictures.

    Only a user sets `child_tokens`, the most that the prompt of a child may hold if the run has no such
    limit, and `calls`, what each call asks for. Only a server reports `most_window`, the one that the model
    was trained for, `is_default` (its window is a default of the program, which the user may not have
    chosen), and `thinks` with the names of its efforts.
    """

    window: int | None = None
    output: int | None = None
    input_price: float | None = None
    output_price: float | None = None
    cached_price: float | None = None
    child_tokens: int | None = None
    sees: bool | None = None
    calls: CallSettings = field(default_factory=CallSettings)
    most_window: int | None = None
    is_default: bool = False
    thinks: bool = False
    think_levels: tuple[str, ...] = ()

    @classmethod
    def from_table(cls, path: str, table: object) -> ModelInfo:
        """Read what a user says from a table. Raises ConfigurationError, which names the key with `path`
        before it."""
        if not isinstance(table, Mapping):
            raise ConfigurationError(f"{path} is {table!r}: make it a table")
        for key, value in table.items():
            if key not in _KEYS:
                meant, known = did_you_mean(key, _KEYS), ", ".join(_KEYS)
                raise ConfigurationError(f"{path}.{key} is no setting{meant}: use one of {known}")
            remedy = ""
            if key in _SIZES and not (type(value) is int and value > 0):
                remedy = "give a whole number of tokens above 0"
            elif key == "sees" and not isinstance(value, bool):
                remedy = "give true or false"
            elif key in _PRICES and not (type(value) in (int, float) and 0 <= value < math.inf):
                remedy = "give dollars for a million tokens"
            if remedy:
                raise ConfigurationError(f"{path}.{key} is {value!r}: {remedy}")
        if ("input_price" in table) != ("output_price" in table) or (
            "cached_price" in table and "input_price" not in table
        ):
            raise ConfigurationError(f"{path} has half a price: give input_price and output_price")
        asked = {key: value for key, value in table.items() if key == "output" or key in _CALLS}
        facts = {key: value for key, value in table.items() if key not in _CALLS}
        return cls(**facts, calls=CallSettings.from_table(f"{path}.", asked))

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

    def to_json(self) -> dict[str, Any]:
        """Return what a user says besides `calls`."""
        return {name: value for name in _FACTS if (value := getattr(self, name)) is not None}

    def apply_to_window(self, listed: ModelWindow) -> ModelWindow:
        """Return a window with what is known here in its place. A context alone says nothing of the output: a
        reply of its size would leave no room for a prompt."""
        sees = listed.sees if self.sees is None else self.sees
        window = self.window or self.most_window
        if window is None and self.output is None:
            return replace(listed, sees=sees)
        size = window or listed.context
        room = min(size, self.output or min(listed.output, max(1, size // 4)))
        return ModelWindow(size, room, known=listed.known or window is not None, sees=sees)

    def price(self, usage: TokenUsage) -> float | None:
        """Return the US dollars for a call's usage; None without prices of input and output."""
        if self.input_price is None or self.output_price is None:
            return None
        cached = min(usage.cached_tokens, usage.input_tokens)
        cached_price = self.input_price if self.cached_price is None else self.cached_price
        fresh = (usage.input_tokens - cached) * self.input_price
        return (fresh + cached * cached_price + usage.output_tokens * self.output_price) / _MILLION


reported_info: dict[str, ModelInfo] = {}
"""What servers have reported in this process, by the names of the models."""


def info_for(name: str, facts: Mapping[str, ModelInfo]) -> ModelInfo | None:
    """Return what the user says of the model with this name, however the table and the name spell it."""
    if name in facts or not facts:
        return facts.get(name)
    try:
        wanted = parse_name(name).canonical
        return next((facts[key] for key in facts if parse_name(key).canonical == wanted), None)
    except ConfigurationError:
        return None


def price(
    model_name: str, usage: TokenUsage, own: Mapping[str, ModelInfo] = MappingProxyType({})
) -> float | None:
    """Return the US dollars for one call's `usage`: at the user's price in `own`, else at that which the
    provider reported in this process, else at today's list price. `model_name` has any form that `resolve`
    supports. Sum the prices of calls, not their tokens: some models charge long prompts a higher rate.

    Returns 0.0 for offline models (`extractive`, `scripted:`, `replay:`) and for servers of the user's own,
    which are on this machine or in a private network, unless the user says otherwise. Returns None where the
    price is unknown: another server, a model that the data lacks, an unknown form of name.
    """
    info = info_for(model_name, own)
    dollars = None if info is None else info.price(usage)
    if dollars is not None:
        return dollars
    try:
        name = parse_name(model_name)
    except ConfigurationError:
        return None
    if name.provider in OFFLINE or is_private_server(name.provider, name.base_url, os.environ):
        return 0.0
    reported = reported_info.get(model_name)
    dollars = None if reported is None else reported.price(usage)
    if dollars is not None:
        return dollars
    listed = find_listing(
        name.model,
        None if name.base_url is not None else PROVIDERS[name.provider].price_list,
        name.base_url,
    )
    return None if listed is None else cost(listed, usage)


class Prices:
    """Prices of calls in US dollars; None where unknown. `own` is what the user says, by model name."""

    def __init__(self, own: Mapping[str, ModelInfo] = MappingProxyType({})) -> None:
        self._own = own

    def of(self, model: Model, usage: TokenUsage) -> float | None:
        """Return the price of a call with this usage: a share of it for a model that waits in batches."""
        full = price(model.name, usage, self._own)
        return None if full is None else full * price_share(model)

    def at_most(self, model: Model, prompt_tokens: int, output_tokens: int) -> float | None:
        """Return the highest price of a call with so many tokens of prompt and reply."""
        return self.of(model, TokenUsage(input_tokens=prompt_tokens, output_tokens=output_tokens))


@lru_cache(maxsize=256)
def window_of(model: str, provider: str | None = None) -> ModelWindow:
    """Return the window of `model`, a name without prefix, as `provider` serves it; None looks at the makers
    of models. An unknown name has the defaults, with `known` False."""
    family = family_of(model)
    # Of names without a provider, only those of the makers: many servers have a `llama3`.
    specs = [
        spec for prefix, spec in PROVIDERS.items() if prefix == provider or (not provider and spec.own_sdk)
    ]
    windows = {name: size for spec in specs for name, size in spec.windows.items()}
    versions = (name for name in windows if model == name or model.startswith(f"{name}-"))
    listed = max(versions, key=len, default=None)
    if listed is not None:
        return ModelWindow(*windows[listed], sees=sees(model))
    listings = (find_listing(model, spec.price_list) for spec in specs)
    context = next((found["context"] for found in listings if found and "context" in found), None)
    if context is None:
        return replace(DEFAULT_WINDOW, sees=sees(model))
    output = family.output or DEFAULT_WINDOW.output
    return ModelWindow(context, min(output, max(1, context // 2)), sees=sees(model))
