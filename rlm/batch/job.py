"""The input and output of an engine for one task. Both can be pickled."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import asdict, field
from typing import Any

from rlm.batch.task import BatchTask
from rlm.config_file.mcp_servers import McpServer
from rlm.events import Observer
from rlm.lazy_dataclass import dataclass
from rlm.results import RunResult, Usage
from rlm.runtime import RLM
from rlm.settings import Limits, Settings

__all__ = ["BatchJob", "BatchOutcome", "Failure", "RunModels"]


@dataclass(frozen=True, slots=True)
class BatchJob:
    """A task, the name of its run in the journal, and its limits."""

    task: BatchTask
    run_id: str
    limits: Limits


@dataclass(frozen=True, slots=True)
class Failure:
    """Why a task has no result. `type` is the error's class; `usage` is what the task used nevertheless."""

    type: str
    message: str
    usage: tuple[Usage, ...] = ()


@dataclass(frozen=True, slots=True)
class BatchOutcome:
    """The result of a task, or why there is none."""

    result: RunResult | None
    failure: Failure | None = None

    def to_json(self, task_id: str | int, run_id: str) -> dict[str, Any]:
        """Return the line of results: the task's id, the fields of the result, and `error`.

        `error` is null unless the task failed to run.
        """
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
    """The names of the models, as RLM takes them, and the MCP servers that code may use. `sub_models` are by
    the names that cells use."""

    model: str
    sub_models: Mapping[str, str] | None = None
    summary_model: str | None = None
    mcp_servers: Mapping[str, McpServer] = field(default_factory=dict)

    def rlm(self, limits: Limits, settings: Settings, observe: Observer | Sequence[Observer] = ()) -> RLM:
        """Return a runtime with these models. Raises ConfigurationError, for example for a missing key."""
        return RLM(
            self.model,
            sub_models=self.sub_models,
            summary_model=self.summary_model,
            limits=limits,
            settings=settings,
            mcp_servers=self.mcp_servers,
            observe=observe,
        )
