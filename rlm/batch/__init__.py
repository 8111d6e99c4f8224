"""Batches: a run for each line of a tasks file, and one line of results for each task."""

from __future__ import annotations

from rlm.batch.batch import Batch, BatchEngine, BatchProgress
from rlm.batch.budget import BatchBudget
from rlm.batch.job import BatchJob, BatchOutcome, Failure, RunModels
from rlm.batch.local_engine import LocalEngine
from rlm.batch.results import ResultsFile, unfinished_costs
from rlm.batch.summary import BatchSummary
from rlm.batch.task import BadTask, BatchTask
from rlm.batch.tasks_file import TasksFile

__all__ = [
    "BadTask",
    "Batch",
    "BatchBudget",
    "BatchEngine",
    "BatchJob",
    "BatchOutcome",
    "BatchProgress",
    "BatchSummary",
    "BatchTask",
    "Failure",
    "LocalEngine",
    "ResultsFile",
    "RunModels",
    "TasksFile",
    "unfinished_costs",
]
