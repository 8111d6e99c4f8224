"""A stub for the model of a run that is replayed. All replies come from the journal, so every call fails."""

from __future__ import annotations

from rlm.errors import ModelRejected
from rlm.models.base import ModelWindow, Reply, Request

__all__ = ["ReplayOnlyModel"]


class ReplayOnlyModel:
    """Implements Model with the name and the window of the recorded model."""

    def __init__(self, run_id: str, name: str, window: ModelWindow) -> None:
        self._run_id = run_id
        self._name = name
        self._window = window

    @property
    def name(self) -> str:
        return self._name

    @property
    def window(self) -> ModelWindow:
        return self._window

    async def generate(self, request: Request) -> Reply:
        raise ModelRejected(
            f"the journal of run {self._run_id} holds no reply to this {request.role} call: the "
            "replay diverged from the run"
        )

    async def aclose(self) -> None:
        """Do nothing."""
