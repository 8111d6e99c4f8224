"""Libraries that a first call stands on, imported while something else is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress
from importlib import import_module

from rlm.models.base import Model

__all__ = ["import_early"]

_NEEDED = ("aiohttp", "genai_prices")


def import_early(models: Iterable[Model]) -> None:
    """Begin to import, on a thread, what the first call of any of `models` will need: it takes half a second,
    in which a run's input is loaded and its kernel starts. Returns at once."""
    from rlm.models.anthropic import AnthropicModel
    from rlm.models.openai import OpenAIModel

    if any(isinstance(model, AnthropicModel | OpenAIModel) for model in models):
        asyncio.get_running_loop().run_in_executor(None, _import)


def _import() -> None:
    for module in _NEEDED:
        with suppress(ImportError):  # told by the call that needs it
            import_module(module)
