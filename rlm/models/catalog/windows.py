"""Context windows and output limits of known models, in tokens."""

from __future__ import annotations

from dataclasses import replace
from functools import lru_cache

from rlm.models.base import ModelWindow
from rlm.models.catalog.sight import sees
from rlm.models.registry import PROVIDERS

__all__ = ["DEFAULT_WINDOW", "known_models", "window_of"]

DEFAULT_WINDOW = ModelWindow(context=128_000, output=8_000, known=False)


def known_models() -> tuple[str, ...]:
    """Return the names of all known models with their prefixes (`openai:gpt-5`)."""
    return tuple(f"{prefix}:{model}" for prefix, spec in PROVIDERS.items() for model in spec.windows)


@lru_cache(maxsize=256)
def window_of(model: str) -> ModelWindow:
    """Return the window of `model`, a provider's own name without prefix. The longest known name that fits
    wins. An unknown name has the defaults, with `known` False."""
    windows = {name: window for spec in PROVIDERS.values() for name, window in spec.windows.items()}
    candidates = [name for name in windows if model == name or _is_version(model, name)]
    if not candidates:
        return replace(DEFAULT_WINDOW, sees=sees(model))
    context, output = windows[max(candidates, key=len)]
    return ModelWindow(context=context, output=output, sees=sees(model))


def _is_version(model: str, name: str) -> bool:
    """Whether `model` is `name` followed by a date or `latest`: `gpt-5-2025-08-07`, but not `gpt-5-pro`."""
    if not model.startswith(f"{name}-"):
        return False
    tail = model[len(name) + 1 :]
    return tail == "latest" or (len(tail) >= 8 and tail.replace("-", "").isdigit())
