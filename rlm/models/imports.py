"""Libraries that a first call stands on, imported while something else is waited for."""

from __future__ import annotations

import asyncio
from collections.abc import Iterable
from contextlib import suppress

from rlm.models.base import Model, TokenUsage
from rlm.models.pricing import price

__all__ = ["import_early"]


def import_early(models: Iterable[Model]) -> None:
    """Begin to import, on a thread, what the first call of any of `models` will need: it takes half a second,
    in which a run's input is loaded and its kernel starts. Returns at once."""
    from rlm.models.anthropic import AnthropicModel
    from rlm.models.openai import OpenAIModel

    names = {model.name for model in models if isinstance(model, AnthropicModel | OpenAIModel)}
    if names:
        asyncio.get_running_loop().run_in_executor(None, _import, names)


def _import(names: Iterable[str]) -> None:
    with suppress(ImportError):  # told by the call that needs it
        import aiohttp  # noqa: F401

        for name in names:
            price(name, TokenUsage())  # looked up once
