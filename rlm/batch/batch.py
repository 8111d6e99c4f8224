"""A batch: a run for each task of a file within one budget, and a line of results for each."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, replace
from typing import Any

from rlm.batch.budget import BatchBudget
from rlm.batch.results import BatchSummary, ResultsFile, cost_of
from rlm.batch.tasks import BatchTask, TasksFile
from rlm.errors import (
    BudgetExhausted,
    ConfigurationError,
    JournalError,
    ModelUnavailable,
    RLMError,
    UsageError,
)
from rlm.journal import Journal
from rlm.journal.checks import damage_reported
from rlm.limits import Limits
from rlm.playback.recording import Recording
from rlm.prompts import PromptError
from rlm.results import Usage
from rlm.runs.opening import make_room, open_journal
from rlm.runtime import RLM
from rlm.sandbox.errors import KernelStartError, SandboxError, SandboxRefused

__all__ = ["FATAL", "RunTask", "failed_line", "local_engine", "run_batch"]

FATAL = (SandboxRefused, ConfigurationError, JournalError)
"""Errors that would fail every task of a batch."""
_MAX_FAILURES = 10
"""The batch stops after this number of consecutive tasks whose provider or kernel failed. The remaining tasks
would fail too."""
_PRUNE_SECONDS = 300.0

RunTask = Callable[[BatchTask, str, Limits], Awaitable[dict[str, Any]]]
"""Runs a task under the name of a run, or resumes that run, and returns its line of results. Raises the FATAL
errors. An engine is a context manager that yields one."""


def failed_line(
    task_id: str | int | None, run_id: str, kind: str, message: str, usage: tuple[Usage, ...] = ()
) -> dict[str, Any]:
    """Return the line of a task that failed to run with an error of that `kind`. `usage` is what it used."""
    return {
        "id": task_id,
        "run_id": run_id,
        "answer": None,
        "confidence": None,
        "stop_reason": "error",
        "citations": [],
        "usage": [asdict(one) for one in usage],
        "rounds": 0,
        "sub_calls": 0,
        "seconds": 0.0,
        "warnings": [],
        "error": {"type": kind, "message": message},
    }


@asynccontextmanager
async def local_engine(rlm: RLM, slots: int) -> AsyncIterator[RunTask]:
    """Run tasks in this process, up to `slots` at a time, each in its own kernel. A task whose run is in the
    journal is resumed, whichever process started it; no other process may run it at the same time."""
    async with AsyncExitStack() as stack:
        stack.push_async_callback(rlm.aclose)
        journal = await stack.enter_async_context(open_journal(rlm.settings))
        kernels = rlm.kernels(slots)
        stack.push_async_callback(kernels.close)
        prune_at = 0.0

        async def run(task: BatchTask, run_id: str, limits: Limits) -> dict[str, Any]:
            nonlocal prune_at
            if time.monotonic() >= prune_at:  # rarely, because it reads the whole journal
                prune_at = time.monotonic() + _PRUNE_SECONDS
                await make_room(journal, rlm.settings)
            own = rlm.sharing(kernels, journal, limits)
            try:
                sources = task.sources()
                if await journal.holds(run_id):
                    result = await own.resume(
                        run_id, context=sources, take_over=True, cost_usd=limits.max_cost
                    )
                else:
                    result = await own.run(task.task, sources, schema=task.schema, run_id=run_id)
            except FATAL:
                raise
            except (RLMError, PromptError, SandboxError) as error:
                usage: tuple[Usage, ...] = ()
                if await journal.holds(run_id):
                    with damage_reported(run_id):
                        usage = Recording.of(await journal.events(run_id)).spent.usage
                return failed_line(task.id, run_id, type(error).__name__, str(error), usage)
            return {"id": task.id, **result.to_json(), "error": None}

        yield run


async def run_batch(
    tasks: TasksFile,
    results: ResultsFile,
    run: RunTask,
    *,
    slots: int,
    limits: Limits,
    store: str,
    budget: float | None = None,
    floor: float = 0.0,
    on_progress: Callable[[BatchSummary], None] = lambda _: None,
) -> BatchSummary:
    """Run the tasks that have no line in `results` yet, up to `slots` at a time, and return the summary.
    Afterwards every task has its line.

    `limits` apply to each task, `budget` (US dollars) to all together, earlier starts included. `floor` is
    the maximum cost of one call. `store` is the journal. `on_progress` is called after every line. Raises
    UsageError, JournalError and SandboxRefused, and ModelUnavailable or SandboxError if the provider or the
    kernel fails task after task. Lines that are written stay, and the next start continues after them.
    """

    def run_id_of(digest: str) -> str:
        return f"{results.batch}.{digest}"

    start = time.monotonic()
    summary = results.summary
    summary.tasks = len(tasks.tasks) + len(tasks.bad)
    for id_, (number, digest) in tasks.tasks.items():
        if results.done.get(id_, run_id_of(digest)) != run_id_of(digest):
            raise UsageError(
                f"line {number} of {tasks.path} (task {id_!r}) has changed since its result was written: "
                "give it a new id, or give a new --out"
            )
    before: dict[str, float] = {}
    if budget is not None and not results.is_new:
        before = await _unfinished_costs(store, results.batch)
    ledger = BatchBudget(budget, slots=slots, floor=floor, spent=summary.cost_usd + sum(before.values()))
    failures = 0

    def write(line: dict[str, Any]) -> None:
        results.append(line)
        on_progress(summary)

    async def work() -> None:
        nonlocal failures
        # Each worker reads the next task when it is free, so only the tasks in progress are in memory.
        for task in waiting:
            if str(task.id) in results.done:
                continue
            run_id = run_id_of(task.digest)
            most, spent_before = task.under(limits), before.get(run_id, 0.0)
            try:
                share = await ledger.reserve(max(0.0, most.max_cost - spent_before))
            except BudgetExhausted as error:
                write(failed_line(task.id, run_id, "BudgetExhausted", str(error)))
                continue
            spent = 0.0
            try:
                found = await run(
                    task, run_id, replace(most, max_cost=min(most.max_cost, spent_before + share))
                )
                write(found)
                spent = max(0.0, (cost_of(found) or 0.0) - spent_before)
            finally:
                await ledger.settle(share, spent)
            outage = _outage_of(found)
            failures = 0 if outage is None else failures + 1
            if failures >= _MAX_FAILURES:
                raise (SandboxError if found["error"] else ModelUnavailable)(
                    f"{failures} consecutive tasks failed ({outage}): fix it (see rlm doctor), then the same "
                    "command resumes the batch"
                )

    for bad in tasks.bad:
        if str(bad.id) not in results.done:
            write(failed_line(bad.id, "", "BadTask", str(bad)))
    waiting = iter(tasks)
    unfinished = sum(id_ not in results.done for id_ in tasks.tasks)
    workers = [asyncio.ensure_future(work()) for _ in range(min(slots, unfinished))]
    try:
        await asyncio.gather(*workers)
    finally:
        for worker in workers:
            worker.cancel()
        await asyncio.gather(*workers, return_exceptions=True)
        summary.seconds = time.monotonic() - start
    return summary


async def _unfinished_costs(store: str, batch: str) -> dict[str, float]:
    """Return the cost of each unfinished run in US dollars."""
    async with Journal.open(store) as journal:
        names = await journal.unfinished(f"{batch}.")
        return {name: (await journal.get(name)).totals.cost_usd or 0.0 for name in names}


def _outage_of(line: dict[str, Any]) -> str | None:
    """Return why the provider or the kernel failed, if they did: other tasks would fail, too."""
    if line["stop_reason"] == "model":
        return f"the provider failed: {line['warnings'][-1] if line['warnings'] else 'no reason given'}"
    error = line["error"] or {}
    return (
        f"no kernel started: {error['message']}" if error.get("type") == KernelStartError.__name__ else None
    )
