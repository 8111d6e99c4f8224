"""Build prompts with one pipeline: bounded, reported, and byte-identical for identical input.

This package uses no network, no model, no clock and no randomness.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from rlm.prompts.errors import *  # noqa: F403
    from rlm.prompts.fitting import *  # noqa: F403
    from rlm.prompts.history import *  # noqa: F403
    from rlm.prompts.packs import *  # noqa: F403
    from rlm.prompts.prompt import *  # noqa: F403
    from rlm.prompts.recipes.card import *  # noqa: F403
    from rlm.prompts.recipes.card_settings import *  # noqa: F403
    from rlm.prompts.recipes.child import *  # noqa: F403
    from rlm.prompts.recipes.cited import *  # noqa: F403
    from rlm.prompts.recipes.cited_answer import *  # noqa: F403
    from rlm.prompts.recipes.notices import *  # noqa: F403
    from rlm.prompts.recipes.root import *  # noqa: F403
    from rlm.prompts.recipes.scoped import *  # noqa: F403
    from rlm.prompts.recipes.tiles import *  # noqa: F403
    from rlm.prompts.tokens.counters import *  # noqa: F403

# What these modules export is exported here, on first use, because few runs need all of it: the
# recipes that no run uses come last.
_HOMES = (
    "recipes.notices",
    "errors",
    "prompt",
    "fitting",
    "packs",
    "tokens.counters",
    "recipes.child",
    "recipes.root",
    "history",
    "recipes.card_settings",
    "recipes.card",
    "recipes.cited",
    "recipes.cited_answer",
    "recipes.scoped",
    "recipes.tiles",
)


def __getattr__(name: str) -> Any:
    for home in () if name.startswith("_") else _HOMES:
        module = import_module(f"rlm.prompts.{home}")
        if name in module.__all__:
            return getattr(module, name)
    raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
