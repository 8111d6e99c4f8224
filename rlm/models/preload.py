"""Import the libraries of a first call in the background."""

from __future__ import annotations

import gc
import threading
from collections.abc import Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING

from rlm.models.base import Model, TokenUsage
from rlm.models.catalog.prices import price

if TYPE_CHECKING:
    from rlm.models.http.model import HttpModel

__all__ = ["import_early"]


def import_early(models: Iterable[Model]) -> None:
    """Start a thread that imports what the first calls of `models` need, and return at once. The imports take
    seconds, in which a run loads its input and starts its kernel."""
    from rlm.models.http.model import HttpModel

    called = (getattr(model, "inner", model) for model in models)
    over_http = {model.name: model for model in called if isinstance(model, HttpModel)}
    if over_http:
        # A daemon, so that a run which ends before its first call does not wait for it.
        threading.Thread(target=_import_clients, args=(over_http,), daemon=True).start()


def _import_clients(models: Mapping[str, HttpModel]) -> None:
    has_new_sdk = False
    with suppress(ImportError):  # the call that needs the library reports it
        for name, model in models.items():
            has_new_sdk |= model.import_client() and not model.is_lean
            price(name, TokenUsage())  # fills the cache of price listings
    if has_new_sdk:
        # So many new objects soon trigger a full collection. Do it now rather than amid a batch.
        gc.collect()
