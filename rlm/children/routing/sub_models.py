"""The models that children may be asked of, by the names that cells use. The first one is the default."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence

from rlm.children.routing.child_model import ChildModel
from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Model, TokenUsage
from rlm.models.catalog.info import ModelInfo, Prices
from rlm.sandbox.host.requests import BadCall

__all__ = ["SubModels", "parse_sub_models", "sub_models_of", "write_sub_models"]

_NAMED = re.compile(r"(?P<name>[A-Za-z][\w.-]{0,39})=(?P<model>.+)", re.DOTALL)
_MAX_MODELS = 8
_USUAL_CALL = TokenUsage(input_tokens=20_000, output_tokens=500)
"""The call whose price is compared."""


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


def sub_models_of(
    models: Mapping[str, Model],
    *,
    limit: int | None,
    output_tokens: int,
    facts: Mapping[str, ModelInfo],
) -> SubModels:
    """Return the models with the sizes of their children."""
    made = (
        ChildModel.of(name, model, limit=limit, output_tokens=output_tokens, facts=facts)
        for name, model in models.items()
    )
    return SubModels(tuple(made))
