"""One batch, from its tasks to its results: what is left to do, within what budget, on which engine."""

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

_FAILURES = 10
"""So many tasks in a row that failed for want of their provider, or of a kernel, end the batch: the others
would fare no better."""

BatchProgress = Callable[[BatchSummary], None]
"""Is told after every line."""


class BatchEngine(Protocol):
    """Whoever carries out jobs, `slots` of them at a time, within `async with`."""

    @property
    def slots(self) -> int: ...

    async def __aenter__(self) -> object: ...

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None: ...

    async def run(self, job: BatchJob) -> BatchOutcome:
        """What came of it. Raises RLMError or SandboxError when no other job would fare better."""


class Batch:
    """The tasks of `tasks` that have no line in `results` yet. `limits` hold for each, `budget` for all.
    `before` is what their runs cost in earlier starts, by name; `budget` counts it as spent."""

    def __init__(
        self,
        tasks: TasksFile,
        results: ResultsFile,
        *,
        limits: Limits,
        budget: BatchBudget,
        told: BatchProgress,
        before: Mapping[str, float] = MappingProxyType({}),
    ) -> None:
        self._tasks = tasks
        self._results = results
        self._limits = limits
        self._budget = budget
        self._told = told
        self._before = before
        self._failures = 0
        results.summary.tasks = len(tasks.places) + len(tasks.bad)
        self._left = [place for place in tasks.places if not self._has_line(place)]

    async def run(self, engine: BatchEngine) -> BatchSummary:
        """Run what is left; every task has its line then. Raises what ends it before: UsageError,
        JournalError, SandboxRefused, ModelUnavailable when the provider fails task after task, SandboxError
        when no kernel can be started for task after task. Whatever ends it, what is written stays, and the
        next start goes on from there."""
        began = time.monotonic()
        for bad in self._tasks.bad:
            if str(bad.id) not in self._results.done:
                self._write(
                    bad.id, BatchOutcome(None, Failure("BadTask", f"line {bad.line} {bad.reason}")), ""
                )
        places = iter(self._left)
        workers = [asyncio.ensure_future(self._work(engine, places)) for _ in self._left[: engine.slots]]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
            self._results.summary.seconds = time.monotonic() - began
        return self._results.summary

    async def _work(self, engine: BatchEngine, places: Iterator[TaskPlace]) -> None:
        # Each takes the next task: no more of them than these are in memory.
        for place in places:
            task = self._tasks.read(place)
            run_id = self._run_id(place)
            limits = task.under(self._limits)
            before = self._before.get(run_id, 0.0)
            try:
                share = await self._budget.reserve(max(0.0, limits.cost_usd - before))
            except BudgetExhausted as error:
                self._write(task.id, BatchOutcome(None, Failure("BudgetExhausted", str(error))), run_id)
                continue
            spent = 0.0
            try:
                job = BatchJob(task, run_id, replace(limits, cost_usd=min(limits.cost_usd, before + share)))
                outcome = await engine.run(job)
                spent = max(0.0, self._write(task.id, outcome, run_id) - before)
            finally:
                await self._budget.settle(share, spent)
            self._watch(outcome)

    def _write(self, task_id: str | int, outcome: BatchOutcome, run_id: str) -> float:
        """Write a task's line; what it cost, as far as that is known."""
        line = outcome.to_json(task_id, run_id)
        self._results.append(line)
        self._told(self._results.summary)
        return cost_of(line) or 0.0

    def _watch(self, outcome: BatchOutcome) -> None:
        """Raises ModelUnavailable or SandboxError when task after task fails for want of the same thing."""
        result, failure = outcome.result, outcome.failure
        provider = result is not None and result.stop_reason == "model"
        kernels = failure is not None and failure.type == KernelStartError.__name__
        self._failures = self._failures + 1 if provider or kernels else 0
        if self._failures < _FAILURES:
            return
        if failure is not None:
            raise SandboxError(
                f"no kernel could be started for {self._failures} tasks one after another "
                f"({failure.message}): when one can (rlm doctor), the same command goes on"
            )
        assert result is not None
        why = result.warnings[-1] if result.warnings else "it gave no reason"
        raise ModelUnavailable(
            f"the provider failed {self._failures} tasks one after another ({why}): when it answers "
            "again, the same command goes on"
        )

    def _run_id(self, place: TaskPlace) -> str:
        return f"{self._results.batch}.{place.digest}"

    def _has_line(self, place: TaskPlace) -> bool:
        run_id = self._results.done.get(str(place.id))
        if run_id is not None and run_id != self._run_id(place):
            raise UsageError(
                f"line {place.line} of {self._tasks.path} (task {place.id!r}) has changed since its result "
                f"was written: give it another id, or another --out"
            )
        return run_id is not None
