"""Import the libraries of a first call in the background."""

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
    """Start a thread that imports what the first calls of `models` need, and return at once. The imports take
    seconds, in which a run loads its input and starts its kernel."""
    from rlm.models.http.model import HttpModel

    called = (getattr(model, "inner", model) for model in models)
    sdks = {model.name: model.clients.sdk for model in called if isinstance(model, HttpModel)}
    if sdks:
        # A daemon, so that a run which ends before its first call does not wait for it.
        threading.Thread(target=_import_sdks, args=(sdks,), daemon=True).start()


def _import_sdks(sdks: Mapping[str, str]) -> None:
    is_new = not sys.modules.keys() >= set(sdks.values())
    with suppress(ImportError):  # the call that needs the library reports it
        for name, sdk in sdks.items():
            import_sdk(sdk)
            price(name, TokenUsage())  # fills the cache of price listings
    if is_new:
        # So many new objects soon trigger a full collection. Do it now rather than amid a batch.
        gc.collect()
