"""Many runs: a file of tasks in, a file of results out, one line a task, whatever happens in between."""

from __future__ import annotations

from rlm.batch.batch import Batch, BatchEngine, BatchProgress
from rlm.batch.job import Failure, Job, Outcome
from rlm.batch.local import LocalEngine
from rlm.batch.models import RunModels
from rlm.batch.purse import Purse
from rlm.batch.results import ResultsFile
from rlm.batch.summary import BatchSummary
from rlm.batch.task import BadTask, BatchTask
from rlm.batch.tasks_file import TasksFile
from rlm.batch.unfinished import unfinished_costs

__all__ = [
    "BadTask",
    "Batch",
    "BatchEngine",
    "BatchProgress",
    "BatchSummary",
    "BatchTask",
    "Failure",
    "Job",
    "LocalEngine",
    "Outcome",
    "Purse",
    "ResultsFile",
    "RunModels",
    "TasksFile",
    "unfinished_costs",
]
