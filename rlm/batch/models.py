"""The models of a batch by their names: what an engine on another machine makes its own RLM from."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm.budget import Limits
from rlm.engine import Settings
from rlm.events import Observer
from rlm.runtime import RLM

__all__ = ["RunModels"]


@dataclass(frozen=True, slots=True)
class RunModels:
    """The names, as RLM takes them."""

    model: str
    sub_model: str | None = None
    summary_model: str | None = None

    def rlm(self, limits: Limits, settings: Settings, observe: Observer | Sequence[Observer] = ()) -> RLM:
        """Ready to run. Raises ConfigurationError, for a missing key, say."""
        return RLM(
            self.model,
            sub_model=self.sub_model,
            summary_model=self.summary_model,
            limits=limits,
            settings=settings,
            observe=observe,
        )
