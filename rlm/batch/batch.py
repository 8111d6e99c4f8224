"""One batch: runs the unfinished tasks of a file on an engine, within a budget."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from types import MappingProxyType, TracebackType
from typing import Protocol

from rlm.batch.budget import BatchBudget
from rlm.batch.job import BatchJob, BatchOutcome, Failure
from rlm.batch.results import ResultsFile
from rlm.batch.summary import BatchSummary, cost_of
from rlm.batch.tasks_file import TaskPlace, TasksFile
from rlm.errors import BudgetExhausted, ModelUnavailable, UsageError
from rlm.sandbox.errors import KernelStartError, SandboxError
from rlm.settings import Limits

__all__ = ["Batch", "BatchEngine", "BatchProgress"]

_MAX_FAILURES = 10
"""The batch stops after this number of consecutive tasks whose provider or kernel failed. The remaining tasks
would fail too."""

BatchProgress = Callable[[BatchSummary], None]
"""Called after every line."""


class BatchEngine(Protocol):
    """Runs up to `slots` jobs at a time, within `async with`."""

    @property
    def slots(self) -> int: ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def run(self, job: BatchJob) -> BatchOutcome:
        """Run a job. Raises RLMError or SandboxError if every other job would fail too."""


class Batch:
    """Runs the tasks that have no line in `results` yet.

    `limits` apply to each task, `budget` to all together. `before` maps the runs of unfinished tasks to
    their cost in earlier starts, which `budget` counts as spent.
    """

    def __init__(
        self,
        tasks: TasksFile,
        results: ResultsFile,
        *,
        limits: Limits,
        budget: BatchBudget,
        on_progress: BatchProgress,
        before: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._tasks = tasks
        self._results = results
        self._limits = limits
        self._budget = budget
        self._on_progress = on_progress
        self._before = before
        self._failures = 0
        results.summary.tasks = len(tasks.places) + len(tasks.bad)
        self._unfinished = [place for place in tasks.places if not self._has_line(place)]

    async def run(self, engine: BatchEngine) -> BatchSummary:
        """Run the unfinished tasks and return the summary. Afterwards every task has its line.

        Raises UsageError, JournalError and SandboxRefused. Raises ModelUnavailable if the provider fails
        task after task, and SandboxError if no kernel starts for task after task. Lines that are written
        stay, and the next start continues after them.
        """
        start = time.monotonic()
        for bad in self._tasks.bad:
            if str(bad.id) not in self._results.done:
                self._write(
                    bad.id, BatchOutcome(None, Failure("BadTask", f"line {bad.line} {bad.reason}")), ""
                )
        places = iter(self._unfinished)
        workers = [
            asyncio.ensure_future(self._work(engine, places)) for _ in self._unfinished[: engine.slots]
        ]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._results.summary.seconds = time.monotonic() - start
        return self._results.summary

    async def _work(self, engine: BatchEngine, places: Iterator[TaskPlace]) -> None:
        # Each worker reads the next task when it is free, so only the tasks in progress are in memory.
        for place in places:
            task = self._tasks.read(place)
            run_id = self._run_id(place)
            limits = task.under(self._limits)
            before = self._before.get(run_id, 0.0)
            try:
                share = await self._budget.reserve(max(0.0, limits.max_cost - before))
            except BudgetExhausted as error:
                self._write(task.id, BatchOutcome(None, Failure("BudgetExhausted", str(error))), run_id)
                continue
            spent = 0.0
            try:
                job = BatchJob(task, run_id, replace(limits, max_cost=min(limits.max_cost, before + share)))
                outcome = await engine.run(job)
                spent = max(0.0, self._write(task.id, outcome, run_id) - before)
            finally:
                await self._budget.settle(share, spent)
            self._check_failures(outcome)

    def _write(self, task_id: str | int, outcome: BatchOutcome, run_id: str) -> float:
        """Write a task's line and return its cost, 0 if it is unknown."""
        line = outcome.to_json(task_id, run_id)
        self._results.append(line)
        self._on_progress(self._results.summary)
        return cost_of(line) or 0.0

    def _check_failures(self, outcome: BatchOutcome) -> None:
        """Raise ModelUnavailable or SandboxError after too many consecutive failures."""
        result, failure = outcome.result, outcome.failure
        is_provider = result is not None and result.stop_reason == "model"
        is_kernel = failure is not None and failure.type == KernelStartError.__name__
        self._failures = self._failures + 1 if is_provider or is_kernel else 0
        if self._failures < _MAX_FAILURES:
            return
        if failure is not None:
            raise SandboxError(
                f"no kernel started for {self._failures} consecutive tasks ({failure.message}): "
                "fix it (see rlm doctor), then the same command resumes the batch"
            )
        assert result is not None
        why = result.warnings[-1] if result.warnings else "no reason given"
        raise ModelUnavailable(
            f"the provider failed {self._failures} consecutive tasks ({why}): when it answers again, "
            "the same command resumes the batch"
        )

    def _run_id(self, place: TaskPlace) -> str:
        return f"{self._results.batch}.{place.digest}"

    def _has_line(self, place: TaskPlace) -> bool:
        run_id = self._results.done.get(str(place.id))
        if run_id is not None and run_id != self._run_id(place):
            raise UsageError(
                f"line {place.line} of {self._tasks.path} (task {place.id!r}) has changed since its result "
                "was written: give it a new id, or give a new --out"
            )
        return run_id is not None
