"""Context windows and output limits of known models, in tokens: the registry's own, else those in the data
that genai-prices ships. Uses no network."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from rlm.models.base import ModelWindow
from rlm.models.catalog.sight import sees
from rlm.models.registry import PROVIDERS, ProviderSpec

if TYPE_CHECKING:
    from genai_prices.types import PriceCalculation

__all__ = ["DEFAULT_WINDOW", "find_listing", "known_models", "window_of"]

DEFAULT_WINDOW = ModelWindow(context=128_000, output=8_000, known=False)


def known_models() -> tuple[str, ...]:
    """Return the names of all models in the registry, with their prefixes (`openai:gpt-5`)."""
    return tuple(
        f"{prefix}:{model}"
        for prefix, spec in PROVIDERS.items()
        for model in dict.fromkeys((*spec.windows, *spec.outputs, spec.default_model))
        if model
    )


@lru_cache(maxsize=256)
def window_of(model: str, provider: str | None = None, *, own_server: bool = False) -> ModelWindow:
    """Return the window of `model`, a name without prefix, as `provider` serves it; None looks at all makers
    of models. The longest known name that fits wins. An unknown name has the defaults, with `known` False.
    For a server of the user's own the price data is asked only for names like those of the provider's own
    models: its import takes half a second."""
    own = PROVIDERS.get(provider) if provider is not None else None
    # Two ways to one provider's models, such as Gemini's, share what is known of them.
    specs = [
        spec
        for prefix, spec in PROVIDERS.items()
        if provider in (None, prefix)
        or (own is not None and spec.price_list and spec.price_list == own.price_list)
    ]
    windows = {name: size for spec in specs for name, size in spec.windows.items()}
    listed = _find_version(model, tuple(windows)) or _find_version(_strip_cloud(model), tuple(windows))
    if listed is not None:
        return ModelWindow(*windows[listed], sees=sees(model))
    # Of names without a provider, only those of the makers: many servers have a `llama3`.
    lists = [spec.price_list for spec in specs if spec.price_list and (provider or spec.own_sdk)]
    if own_server and not any(_family(model) in _families(spec) for spec in specs):
        lists = []
    contexts = (_find_context(model, price_list) for price_list in lists)
    context = next((found for found in contexts if found is not None), None)
    if context is None:
        return replace(DEFAULT_WINDOW, sees=sees(model))
    outputs = {name: size for spec in PROVIDERS.values() for name, size in spec.outputs.items()}
    limited = _find_version(_strip_cloud(model), tuple(outputs))
    output = DEFAULT_WINDOW.output if limited is None else outputs[limited]
    return ModelWindow(context, min(output, max(1, context // 2)), sees=sees(model))


@lru_cache(maxsize=256)
def find_listing(model: str, price_list: str | None, url: str | None = None) -> PriceCalculation | None:
    """Return a model's entry in the price data, or None. `price_list` is the provider's id there; `url`
    finds it by its address. Cached: the lookup takes longer than the calculation."""
    # The import takes half a second, so it waits for the first priced call.
    from genai_prices import Usage, calc_price

    if not price_list and url is None:
        return None
    minimal = Usage(input_tokens=1, output_tokens=1)
    for spelling in dict.fromkeys((model, model.rpartition("/")[2])):  # `google/gemini-2.5-pro` on Vertex
        try:
            if url is not None:
                return calc_price(minimal, spelling, provider_api_url=url)
            return calc_price(minimal, spelling, provider_id=price_list)
        except LookupError:  # no such provider or model in the data
            continue
    return None


def _find_context(model: str, price_list: str) -> int | None:
    """Return the context window in the price data, or None."""
    listed = find_listing(model, price_list)
    return None if listed is None else listed.model.context_window


def _find_version(model: str, names: tuple[str, ...]) -> str | None:
    """Return the longest of `names` that `model` is, or is a version of."""
    candidates = [name for name in names if model == name or _is_version(model, name)]
    return max(candidates, key=len, default=None)


def _families(spec: ProviderSpec) -> set[str]:
    return {_family(name) for name in (*spec.windows, *spec.outputs, spec.default_model)}


def _family(model: str) -> str:
    """Return the first word of a name: `gpt` of `gpt-5`, `o` of `o3`."""
    name = model.rpartition("/")[2].casefold()
    return name[: next((at for at, letter in enumerate(name) if not letter.isalpha()), len(name))]


def _strip_cloud(model: str) -> str:
    """Return a cloud's name of a model without what the cloud adds to its maker's: `us.anthropic.`, `-v1:0`,
    `@20250929`."""
    name = model.rpartition("/")[2].partition(":")[0].partition("@")[0]
    name = name.rpartition("anthropic.")[2]
    return name.removesuffix("-v1")


def _is_version(model: str, name: str) -> bool:
    """Whether `model` is `name` followed by a date or `latest`: `gpt-5-2025-08-07`, but not `gpt-5-pro`."""
    if not model.startswith(f"{name}-"):
        return False
    tail = model[len(name) + 1 :]
    return tail == "latest" or (len(tail) >= 8 and tail.replace("-", "").isdigit())
