"""What an engine is given for a task, and what it gives back. Both can be sent to another machine."""

from __future__ import annotations

from dataclasses import asdict, dataclass
from typing import Any

from rlm.batch.task import BatchTask
from rlm.budget import Limits
from rlm.types import RunResult, Usage

__all__ = ["Failure", "Job", "Outcome"]


@dataclass(frozen=True, slots=True)
class Job:
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
class Outcome:
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
