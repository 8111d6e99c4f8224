"""Runs the arms on the items, and continues a bench that was stopped or killed."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Iterator, Sequence
from contextlib import AsyncExitStack
from dataclasses import field, replace
from typing import TYPE_CHECKING

from benchmarks.quality.bench.answer import said_by
from benchmarks.quality.bench.arms import Arm, TooLong
from benchmarks.quality.bench.budget import BenchBudget
from benchmarks.quality.bench.folder import BenchFolder, Key, Row
from benchmarks.quality.bench.item import Item
from benchmarks.quality.bench.scoring import score
from rlm.documents import TextSource
from rlm.errors import BudgetExhausted, ConfigurationError, JournalError, ModelError, RLMError
from rlm.lazy_dataclass import dataclass
from rlm.playback.recording import Recording
from rlm.prompts import PromptError
from rlm.results import RESUMABLE, RunResult
from rlm.runs.opening import open_journal
from rlm.runtime import RLM
from rlm.sandbox.errors import SandboxError, SandboxRefused
from rlm.tasks.attempts import answer_in_attempts, resume_attempts

if TYPE_CHECKING:
    from rlm.journal import Journal
    from rlm.sandbox.host.pool import KernelPool

__all__ = ["Bench", "BenchEnd"]

_FAILURES_IN_A_ROW = 5
"""A provider that refuses so many runs in a row refuses all."""


@dataclass(slots=True)
class BenchEnd:
    """How a start of a bench ended: runs that are missing, those that failed and are retried by the next
    start, and why it stopped before its end, "" if it did not."""

    missing: int = 0
    failed: list[str] = field(default_factory=list)
    stopped: str = ""


@dataclass(frozen=True, slots=True)
class Bench:
    """Runs each arm on each item so many times, several runs at a time. `rlm` has the models, the settings
    (its store is that of `folder`) and the limits of one run. A run that the journal has is resumed."""

    rlm: RLM
    items: Sequence[Item]
    arms: Sequence[Arm]
    repeats: int
    folder: BenchFolder
    max_cost: float | None
    jobs: int = 4
    on_row: Callable[[Row], None] = lambda row: None

    @property
    def keys(self) -> list[Key]:
        """Return all runs, in the order in which they start: every arm of an item, then the next item."""
        return [
            (item.id, arm.name, repeat)
            for repeat in range(1, self.repeats + 1)
            for item in self.items
            for arm in self.arms
        ]

    async def run(self) -> BenchEnd:
        """Run what has no result yet. Raises SandboxRefused, ConfigurationError and JournalError, which would
        fail every run."""
        end = BenchEnd()
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self.rlm.aclose)
            journal = await stack.enter_async_context(open_journal(self.rlm.settings))
            kernels = self.rlm.kernels(self.jobs)
            stack.push_async_callback(kernels.close)
            todo = [key for key in self.keys if not self._is_done(key)]
            spent = await self._spent(journal)
            work = _Work(self, journal, kernels, BenchBudget(self.max_cost, spent=spent), end)
            queue = iter(todo)
            workers = [asyncio.ensure_future(work.run_each(queue)) for _ in range(self.jobs)]
            try:
                await asyncio.gather(*workers)
            finally:
                for worker in workers:
                    worker.cancel()
                await asyncio.gather(*workers, return_exceptions=True)
        end.missing = sum(not self._is_done(key) for key in self.keys)
        return end

    def _is_done(self, key: Key) -> bool:
        row = self.folder.rows.get(key)
        return row is not None and row.score is not None

    async def _spent(self, journal: Journal) -> float:
        """Return what all runs in the journal cost, including runs without a result."""
        costs = [
            one.totals.cost_usd if one.state == "finished" else await cost_of(journal, one.run_id)
            for one in await journal.runs(None)
        ]
        return sum(filter(None, costs))


@dataclass(slots=True)
class _Work:
    """One start of a bench."""

    bench: Bench
    journal: Journal
    kernels: KernelPool
    budget: BenchBudget
    end: BenchEnd
    failures: int = 0

    async def run_each(self, queue: Iterator[Key]) -> None:
        """Run what the queue holds, until it is empty or the bench stops."""
        items = {item.id: item for item in self.bench.items}
        arms = {arm.name: arm for arm in self.bench.arms}
        for key in queue:
            if self.end.stopped:
                return
            try:
                await self._run_one(items[key[0]], arms[key[1]], key[2])
                self.failures = 0
            except BudgetExhausted as error:
                self.end.stopped = str(error)
            except ModelError as error:
                self.failures += 1
                self.end.failed.append(f"{key[0]}, {key[1]}: {error}")
                if self.failures >= _FAILURES_IN_A_ROW:
                    self.end.stopped = f"{self.failures} runs in a row failed, the last with: {error}"

    async def _run_one(self, item: Item, arm: Arm, repeat: int) -> None:
        folder = self.bench.folder
        row = folder.rows.get((item.id, arm.name, repeat))
        if row is None:
            row = await self._answered(item, arm, repeat)
            row = replace(row, score=score(item.rule, row.said, item.golds) if row.said else 0.0)
            folder.append(row)
        self.bench.on_row(row)

    async def _answered(self, item: Item, arm: Arm, repeat: int) -> Row:
        row = Row(item.id, arm.name, repeat, "error", run_id=f"{item.id}.{arm.name}.{repeat:02d}")
        limits = arm.limits(self.bench.rlm.limits)
        before = await cost_of(self.journal, row.run_id)
        async with self.budget.share(limits.max_cost, before) as spent:
            rlm = self.bench.rlm.sharing(self.kernels, self.journal, limits, run_id=row.run_id)
            rlm.settings = arm.settings(rlm.settings)
            try:
                given = await asyncio.to_thread(arm.give, rlm, item)
                row = replace(row, is_cut=given.is_cut)
                result = await self._result(rlm, arm, row.run_id, item.question, given.sources)
            except TooLong as error:
                return replace(row, run_id="", status="too long", detail=str(error))
            except (SandboxRefused, ConfigurationError, JournalError, ModelError):
                raise
            except (RLMError, PromptError, SandboxError) as error:
                is_recorded = await self.journal.holds(row.run_id)
                return replace(row, run_id=row.run_id if is_recorded else "", detail=str(error))
            finally:
                spent.append(await cost_of(self.journal, row.run_id))
        if result.stop_reason in RESUMABLE:
            raise ModelError(result.cause or "the provider failed")
        said = said_by(result, await self.journal.events(row.run_id))
        return _measured(row, result, said)

    async def _result(
        self, rlm: RLM, arm: Arm, run_id: str, question: str, texts: list[TextSource]
    ) -> RunResult:
        begun = await self.journal.holds(run_id)
        if arm.attempts > 1:
            if begun:
                return await resume_attempts(rlm, run_id, texts)
            return await answer_in_attempts(rlm, question, texts, attempts=arm.attempts)
        if begun:
            return await rlm.resume(run_id, context=texts, take_over=True)
        return await rlm.run(question, texts, run_id=run_id)


async def cost_of(journal: Journal, run_id: str) -> float:
    """Return what a run has cost so far, by its journal; 0 for a run that it does not have."""
    if not await journal.holds(run_id):
        return 0.0
    usage = Recording.of(await journal.events(run_id)).spent.usage
    return sum(one.cost_usd or 0.0 for one in usage)


def _measured(row: Row, result: RunResult, said: str) -> Row:
    support = result.support
    return replace(
        row,
        status="no answer" if not said.strip() else "answered" if result.found else "not found",
        said=said,
        detail="" if said.strip() else result.cause or "",
        stop_reason=result.stop_reason,
        strategy=result.strategy,
        rounds=result.rounds,
        calls=sum(one.calls for one in result.usage),
        input_tokens=sum(one.input_tokens for one in result.usage),
        output_tokens=sum(one.output_tokens for one in result.usage),
        cost_usd=result.cost_usd,
        seconds=result.seconds,
        citations=len(result.citations),
        verified=sum(one.verified for one in result.citations),
        supported=0 if support is None else support.supported,
        checked=0 if support is None else support.supported + support.unsupported,
    )
