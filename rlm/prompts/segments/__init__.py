"""Store pieces of prompts: records, adapters that an assembly reads from, and the store.

The store is imported on first use: most prompts need no database.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

from rlm.prompts.segments.segment import *  # noqa: F403

if TYPE_CHECKING:
    from rlm.prompts.segments.exchange import *  # noqa: F403
    from rlm.prompts.segments.store import *  # noqa: F403


def __getattr__(name: str) -> Any:
    for home in () if name.startswith("_") else ("store", "exchange"):
        module = import_module(f"rlm.prompts.segments.{home}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
