"""Turns the models that a caller names into models, with their settings, windows and batches."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping
from dataclasses import dataclass, replace

from rlm.errors import ConfigurationError
from rlm.events import Event, Retrying, Warned
from rlm.models import CallSettings, Model, default_model, resolve
from rlm.models.catalog.info import info_for
from rlm.settings import Settings
from rlm.store_file import default_store

__all__ = ["ModelResolver"]


@dataclass(frozen=True, slots=True)
class ModelResolver:
    """Resolves models under `settings`. `concurrency` limits the calls in flight at one endpoint. `tell` gets
    events of their connections."""

    settings: Settings
    concurrency: int
    tell: Callable[[Event], None]

    def resolve(
        self, model: str | Model | None, calls: CallSettings, given_as: str
    ) -> tuple[Model, CallSettings]:
        """Return the model, and the settings of its calls: `calls`, or else those of its facts. `given_as`
        names `calls` in the error for a model that takes none, "" if it may ignore them."""
        resolved, calls = self._resolve_fast(model, calls, given_as)
        return self.make_slow(resolved) if self.settings.slow else resolved, calls

    def resolve_children(
        self,
        root: tuple[Model, CallSettings],
        given_root: str | Model | None,
        one: str | Model | None,
        several: Mapping[str, str | Model] | None,
    ) -> tuple[Mapping[str, Model], CallSettings]:
        """Return the models of children by name, the default one first, and the settings of its calls. `one`
        or `several` are what the caller gave, `given_root` is his model of the root. Raises
        ConfigurationError."""
        if several and one is not None:
            raise ConfigurationError("both sub_model and sub_models are given: leave one out")
        own = self.settings.sub_options
        if several:
            resolved = {name: self.resolve(model, own, "sub_options") for name, model in several.items()}
        else:
            child = root
            if one is not None or own != self.settings.options:
                child = self.resolve(given_root if one is None else one, own, "sub_options")
            resolved = {child[0].name: child}
        _, calls = next(iter(resolved.values()))
        return {name: model for name, (model, _) in resolved.items()}, calls

    def make_slow(self, model: Model) -> Model:
        """Return `model` over its provider's batch API. Raises ConfigurationError if it has none."""
        from rlm.models.slow_model import make_slow

        return make_slow(
            model,
            self.settings.store or default_store(os.environ),
            on_batches=self.tell,
            on_retry=lambda attempt, wait, reason: self.tell(Retrying(attempt, wait, reason)),
        )

    def _resolve_fast(
        self, model: str | Model | None, calls: CallSettings, given_as: str
    ) -> tuple[Model, CallSettings]:
        if model is not None and not isinstance(model, str):
            if calls and given_as:
                raise ConfigurationError(
                    f"{given_as} need a model that is given by name, and {model.name} is an object: make "
                    "it with ModelOptions(calls=…)"
                )
            return model, calls
        options = self.settings.models
        name = default_model(os.environ) if model is None else model
        facts = info_for(name, self.settings.facts)
        if facts is not None:
            options, calls = replace(options, info=facts), calls.over(facts.calls)
        calls = calls.over(options.calls)
        options = replace(
            options,
            calls=calls,
            concurrency=self.concurrency,
            on_refused=lambda line: self.tell(Warned(line)),
        )
        return resolve(name, os.environ, options, store=self.settings.store), calls
