"""The models that children may be asked of, by the names that cells use, and how large their prompts and
replies may be. The first one is the default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass

from rlm.errors import ConfigurationError
from rlm.models.base import Model, TokenUsage
from rlm.models.catalog.info import ModelInfo, Prices
from rlm.sandbox.host.requests import BadCall

__all__ = [
    "ChildModel",
    "SubModels",
    "default_child_tokens",
    "parse_sub_models",
    "write_sub_models",
]

_NAMED = re.compile(r"(?P<name>[A-Za-z][\w.-]{0,39})=(?P<model>.+)", re.DOTALL)
_MAX_MODELS = 8
_USUAL_CALL = TokenUsage(input_tokens=20_000, output_tokens=500)
"""The call whose price is compared."""
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


def parse_sub_models(given: Sequence[str]) -> dict[str, str]:
    """Return the models of `NAME=MODEL` or `MODEL`, by name. A model without a name has its own as one.

    Raises ConfigurationError for a name that is given twice, and for too many.
    """
    models: dict[str, str] = {}
    for one in given:
        named = _NAMED.fullmatch(one.strip())
        name, model = (named["name"], named["model"]) if named else (one.strip(), one.strip())
        if name in models:
            raise ConfigurationError(f"--sub-model names {name} twice: give each model a name of its own")
        models[name] = model
    if len(models) > _MAX_MODELS:
        raise ConfigurationError(f"{len(models)} sub-models are given: give at most {_MAX_MODELS}")
    return models


def write_sub_models(models: Mapping[str, str]) -> list[str]:
    """Return the values from which `parse_sub_models` makes these models."""
    return [model if name == model else f"{name}={model}" for name, model in models.items()]


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


@dataclass(frozen=True, slots=True)
class SubModels:
    """The models of children, the default one first."""

    models: tuple[ChildModel, ...]

    def __iter__(self) -> Iterator[ChildModel]:
        return iter(self.models)

    @property
    def default(self) -> ChildModel:
        return self.models[0]

    @property
    def looking(self) -> ChildModel:
        """Return the model that looks at pages: the first one that sees, or else the default one."""
        return next((one for one in self.models if one.model.window.sees), self.default)

    def named(self, name: str) -> ChildModel:
        """Return the model of that name, or the default one for "". Raises BadCall, which lists the names."""
        if not name:
            return self.default
        for one in self.models:
            if name in (one.name, one.model.name):
                return one
        names = ", ".join(one.name for one in self.models)
        raise BadCall("sub_model", f"there is no sub-model {name!r:.80}. Those of this run are: {names}")

    def described(self, prices: Prices) -> str:
        """Return one line for the root, or "" for a single model: `cheap (default, window 400,000), strong
        (window 400,000, 5 x its price)`."""
        if len(self.models) < 2:
            return ""
        first = prices.of(self.default.model, _USUAL_CALL)
        return ", ".join(self._describe(one, first, prices) for one in self.models)

    def _describe(self, one: ChildModel, first: float | None, prices: Prices) -> str:
        facts = [f"{one.prompt_tokens:,} tokens"]
        cost = prices.of(one.model, _USUAL_CALL)
        if one is self.default:
            facts.insert(0, "default")
        elif first and cost:
            facts.append(f"{cost / first:.2g} x its price")
        return f"{one.name!r} ({', '.join(facts)})"
