"""Libraries that a first call stands on, imported while something else is waited for."""

from __future__ import annotations

import gc
import sys
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress

from rlm.models.base import Model, TokenUsage
from rlm.models.catalog.prices import price
from rlm.models.http.shared_clients import import_sdk

__all__ = ["import_early"]


def import_early(models: Iterable[Model]) -> None:
    """Begin to import, on a thread, what the first call of any of `models` will need: it takes seconds, in
    which a run's input is loaded and its kernel starts. Returns at once."""
    from rlm.models.providers.anthropic import AnthropicModel
    from rlm.models.providers.openai import OpenAIModel

    sdks: dict[str, str] = {}
    for model in models:
        if isinstance(model, AnthropicModel | OpenAIModel):
            sdks[model.name] = "anthropic" if isinstance(model, AnthropicModel) else "openai"
    if sdks:
        # Nobody waits for it: a run that ends before its first call ends at once.
        threading.Thread(target=_import, args=(sdks,), daemon=True).start()


def _import(sdks: Mapping[str, str]) -> None:
    new = not sys.modules.keys() >= set(sdks.values())
    with suppress(ImportError):  # told by the call that needs it
        for name, sdk in sdks.items():
            import_sdk(sdk)
            price(name, TokenUsage())  # looked up once
    if new:
        # So much makes the collector look through everything soon: better now than amid a batch.
        gc.collect()
