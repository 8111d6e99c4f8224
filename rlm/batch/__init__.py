"""Batches: a run for each line of a tasks file, and one line of results for each task."""

from __future__ import annotations

from rlm.batch.batch import RunTask, local_engine, run_batch
from rlm.batch.budget import BatchBudget
from rlm.batch.results import BatchSummary, ResultsFile
from rlm.batch.tasks import BadTask, BatchTask, TasksFile

__all__ = [
    "BadTask",
    "BatchBudget",
    "BatchSummary",
    "BatchTask",
    "ResultsFile",
    "RunTask",
    "TasksFile",
    "local_engine",
    "run_batch",
]
