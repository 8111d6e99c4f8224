"""A model of children, and how large their prompts and replies may be."""

from __future__ import annotations

import re
from collections.abc import Mapping

from rlm.lazy_dataclass import dataclass
from rlm.models.base import Model
from rlm.models.catalog.info import ModelInfo

__all__ = ["ChildModel", "default_child_tokens"]

_LEAST = 32_000
"""Tokens that any model may get, if its window has them. RULER (arXiv 2404.06654) measured models that
claim at least this window: half of them kept their quality up to here, and few beyond."""
_MOST = 100_000
"""Tokens for models that read long prompts well: 220,000 to 290,000 characters of English. The children of
the RLM paper (arXiv 2512.24601), GPT-5-mini, read 100,000 to 500,000."""
_WINDOW_SHARE = 4
"""A prompt above `_LEAST` takes at most one in so many tokens of the window. Quality falls long before it is
full."""
_READS_LONG = re.compile(
    r"gpt-(?:[5-9]|\d\d)|claude-(?:[a-z]+-)?(?:4-[5-9]|[5-9])|gemini-(?:2\.5|[3-9])", re.IGNORECASE
)
"""The families of the paper's children and later ones of the same size."""
_REPLY_SHARE = 4
"""A child's reply may take at most one in so many tokens of its model's window."""


@dataclass(frozen=True, slots=True)
class ChildModel:
    """A model that children may be asked of. `name` is how a cell names it. `prompt_tokens` and
    `output_tokens` are the most that the prompt and the reply of a child may hold."""

    name: str
    model: Model
    prompt_tokens: int
    output_tokens: int

    @classmethod
    def of(
        cls,
        name: str,
        model: Model,
        *,
        limit: int | None,
        output_tokens: int,
        facts: Mapping[str, ModelInfo],
    ) -> ChildModel:
        """Return the model with its sizes. `limit` is that of the run. Without one, the user's facts decide,
        or else the default. The window may leave room for less."""
        window = model.window
        output = min(output_tokens, window.output, max(1, window.context // _REPLY_SHARE))
        own = facts[model.name].child_tokens if model.name in facts else None
        tokens = limit or own or default_child_tokens(model)
        return cls(name, model, min(tokens, max(1, window.context - output)), output)


def default_child_tokens(model: Model) -> int:
    """Return the tokens that the prompt of a child may hold if nobody set a limit.

    It is 32,000, or for a model that reads long prompts well a quarter of its known window, up to 100,000.
    """
    window = model.window
    if not window.known or not _READS_LONG.search(model.name):
        return _LEAST
    return max(_LEAST, min(_MOST, window.context // _WINDOW_SHARE))
