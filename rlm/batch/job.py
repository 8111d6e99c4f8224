"""What an engine is given for a task, and what it gives back. Both can be sent to another machine."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict, dataclass
from typing import Any

from rlm.batch.task import BatchTask
from rlm.events import Observer
from rlm.results import RunResult, Usage
from rlm.runtime import RLM
from rlm.settings import Limits, Settings

__all__ = ["BatchJob", "BatchOutcome", "Failure", "RunModels"]


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A task, the name its run has in the journal, and what it may take."""

    task: BatchTask
    run_id: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no result. `type` is the error's class; `usage` is what it took all the same."""

    type: str
    message: str
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """What came of a task: a result, or why there is none."""

    result: RunResult | None
    failure: Failure | None = None

    def to_json(self, task_id: str | int, run_id: str) -> dict[str, Any]:
        """A line of the results: the task's id, the result's fields, and `error`, which is null unless the
        task could not be run."""
        if self.result is not None:
            return {"id": task_id, **self.result.to_json(), "error": None}
        assert self.failure is not None
        return {
            "id": task_id,
            "run_id": run_id,
            "answer": None,
            "confidence": None,
            "stop_reason": "error",
            "citations": [],
            "usage": [asdict(one) for one in self.failure.usage],
            "rounds": 0,
            "sub_calls": 0,
            "seconds": 0.0,
            "warnings": [],
            "error": {"type": self.failure.type, "message": self.failure.message},
        }


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
