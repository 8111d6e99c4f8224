"""Reads the earlier questions of the same kernel, and restores their variables in a new kernel."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Self

from rlm.children.run_input import RunInput
from rlm.children.tools import Toolbox
from rlm.driver.cell_runner import DIED, rerun_cells
from rlm.errors import JournalError, UsageError
from rlm.journal import Journal, ReadOnlyLog
from rlm.lazy_dataclass import dataclass
from rlm.prompts import EarlierQuestion
from rlm.runs.config import RunConfig
from rlm.runs.options import RunOptions, RunResources
from rlm.runs.run import Run
from rlm.runs.shared_kernel import PastQuestion, ReplayableRun, SharedKernel
from rlm.runs.stored_run import StoredRun, limits_of, settings_of, stored_result
from rlm.sandbox.protocol import KernelHandler, Sandbox
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import CellResult, Span

if TYPE_CHECKING:
    from rlm.sandbox.context.writer import ContextFile

__all__ = [
    "PreviousQuestion",
    "describe_variables",
    "make_continued_kernel",
    "make_past_question",
    "read_earlier_runs",
]


@dataclass(frozen=True, slots=True)
class PreviousQuestion:
    """An earlier question. `run_id` names its run. `variables` describes its variables, by name."""

    run_id: str
    question: EarlierQuestion
    variables: Mapping[str, str]

    @classmethod
    def of(cls, stored: StoredRun) -> Self:
        """Return the question of a stored run. Raises UsageError if the run has not ended."""
        result = stored_result(stored.run_id, stored.events)
        if result is None:
            raise UsageError(
                f"run {stored.run_id} has not ended. Resume it first (rlm resume {stored.run_id})"
            )
        answer = result.answer
        if answer is None:
            text = f"none ({result.stop_reason})"
        else:
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        variables: dict[str, str] = {}
        for round_ in stored.recording().rounds:
            changed = () if round_.cell is None else round_.cell.report.changed
            variables.update((variable.name, str(variable)) for variable in changed)
        return cls(stored.run_id, EarlierQuestion(stored.task, text), variables)


async def read_earlier_runs(journal: Journal, stored: StoredRun) -> tuple[StoredRun, ...]:
    """Return the runs that `stored` continues, oldest first. Raises UsageError if one of them is gone."""
    found: list[StoredRun] = []
    latest, seen = stored, {stored.run_id}
    while (name := latest.facts.get("after")) is not None:
        if name in seen:
            raise UsageError(f"run {stored.run_id} continues itself: its journal is damaged")
        seen.add(name)
        try:
            latest = await StoredRun.read(journal, name)
        except JournalError as error:
            raise UsageError(
                f"run {stored.run_id} continues run {name}, which is no longer in the journal. "
                "Ask the question again"
            ) from error
        found.append(latest)
    return tuple(reversed(found))


def make_past_question(
    read: Callable[[], Awaitable[StoredRun]],
    config: RunConfig,
    context: Callable[[], tuple[ContextFile, Body]],
    resources: RunResources,
) -> PastQuestion:
    """Return what the kernel of a session needs to replay an earlier question. The cells run over the context
    of that time and get the recorded replies. No model is called, and no tool runs."""

    @asynccontextmanager
    async def open_question() -> AsyncIterator[ReplayableRun]:
        stored = await read()
        file, body = context()
        chars = stored.facts["context_chars"]
        source = RunInput(file, body)
        if chars != body.chars:
            source = RunInput(file, body.window(0, chars), Span(0, chars))
        run = Run(
            _replay_config(config, stored),
            stored.task,
            source,
            ReadOnlyLog(stored.events),
            replace(resources, kernel=None),
            RunOptions(recording=stored.recording(), answer_type=stored.answer_type),
        )
        try:
            yield _ReplayedRun(run)
        finally:
            await run.aclose()
            if source.body is not body:
                source.body.close()

    return open_question


def make_continued_kernel(
    earlier: Sequence[StoredRun],
    config: RunConfig,
    context: ContextFile,
    body: Body,
    resources: RunResources,
) -> SharedKernel:
    """Return the kernel of a run that continues the runs `earlier` (oldest first)."""

    async def read(stored: StoredRun) -> StoredRun:
        return stored

    kernel = SharedKernel(
        context,
        resources.kernels,
        seed=f"{earlier[0].run_id}:0",
        tools=config.tools.docs,
    )
    kernel.past = [
        make_past_question(partial(read, stored), config, lambda: (context, body), resources)
        for stored in earlier
    ]
    return kernel


def _replay_config(config: RunConfig, stored: StoredRun) -> RunConfig:
    """Return the config that replays `stored`: its limits and settings, without a model or an observer."""
    return RunConfig(
        *stored.replay_only_models(),
        limits_of(stored.facts),
        settings_of(config.settings, stored.facts),
        lambda _: None,
        Toolbox().as_recorded(stored.facts.get("tools", ())),
    )


def describe_variables(earlier: Sequence[PreviousQuestion]) -> tuple[str, ...]:
    """Return one line for each variable that the kernel holds of these questions: `name: type, size`."""
    variables: dict[str, str] = {}
    for one in earlier:
        variables.update(one.variables)
    return tuple(variables.values())


class _ReplayedRun:
    """Replays the cells of an ended run in the kernel of a later run (a ReplayableRun). It calls no model,
    because the handler answers from the journal."""

    def __init__(self, run: Run) -> None:
        run.handler.accept_all()
        self.handler: KernelHandler = run.handler
        self.chars = run.input.body.chars
        self._run_context = run.run_context
        self._cell_seconds = run.config.limits.cell_seconds

    async def replay_cells(self, sandbox: Sandbox) -> tuple[CellResult | None, list[int]]:
        """See ReplayableRun."""

        async def execute(code: str, round_: int) -> CellResult:
            return await sandbox.execute(code, round=round_, timeout=self._cell_seconds)

        changed: list[int] = []
        async for past, result, same in rerun_cells(self._run_context.playback, execute):
            if result.ename == DIED:
                return result, changed
            if not same:
                changed.append(past.number)
            self._run_context.coverage.note("read", result.report.read)
            self._run_context.coverage.note("scanned", result.report.scanned)
        return None, changed
