"""The questions asked before one in the same kernel, and how a new kernel gets the variables they left."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, replace
from functools import partial
from typing import TYPE_CHECKING, Self

from rlm.children.run_input import RunInput
from rlm.children.tools import Toolbox
from rlm.errors import JournalError, UsageError
from rlm.prompts import EarlierQuestion
from rlm.runs.config import RunConfig
from rlm.runs.options import RunOptions
from rlm.runs.replayed_run import ReplayedRun
from rlm.runs.resources import RunResources
from rlm.runs.run import Run
from rlm.runs.shared_kernel import PastQuestion, ReplayableRun, SharedKernel
from rlm.runs.stored_run import StoredRun, limits_of, settings_of
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Span

if TYPE_CHECKING:
    from rlm.journal import Journal
    from rlm.sandbox.context.writer import ContextFile

__all__ = ["PreviousQuestion", "before", "kernel_after", "past_question", "variables_of"]


@dataclass(frozen=True, slots=True)
class PreviousQuestion:
    """An earlier question, by the name of its run. `variables` are what its cells assigned, by name."""

    run_id: str
    told: EarlierQuestion
    variables: Mapping[str, str]

    @classmethod
    def of(cls, left: StoredRun) -> Self:
        """Raises UsageError for a run that has not ended."""
        last = left.events[-1] if left.events else None
        if last is None or last.kind != "finished":
            raise UsageError(f"run {left.run_id} has not ended: resume it first (rlm resume {left.run_id})")
        answer = last.data["answer"]
        if answer is None:
            text = f"none ({last.data['stop_reason']})"
        else:
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        variables: dict[str, str] = {}
        for past in left.recording().rounds:
            changed = () if past.cell is None else past.cell.report.changed
            variables.update((variable.name, str(variable)) for variable in changed)
        return cls(left.run_id, EarlierQuestion(left.task, text), variables)


async def before(journal: Journal, left: StoredRun) -> tuple[StoredRun, ...]:
    """Return the runs that `left` continues, oldest first. Raises UsageError when one is gone."""
    found: list[StoredRun] = []
    one = left
    while (name := one.facts.get("after")) is not None:
        try:
            one = await StoredRun.read(journal, name)
        except JournalError as error:
            raise UsageError(
                f"run {left.run_id} continues run {name}, which is no longer in the journal: ask again"
            ) from error
        found.append(one)
    return tuple(reversed(found))


def past_question(
    read: Callable[[], Awaitable[StoredRun]],
    config: RunConfig,
    context: Callable[[], tuple[ContextFile, Body]],
    resources: RunResources,
) -> PastQuestion:
    """Return what a session's kernel needs to replay an earlier question. Its cells run over the context as
    it was and get the replies they got. No model is asked and no tool runs."""

    @asynccontextmanager
    async def again() -> AsyncIterator[ReplayableRun]:
        from rlm.journal import ReadOnlyLog

        left = await read()
        file, body = context()
        chars = left.facts["context_chars"]
        source = RunInput(file, body)
        if chars != body.chars:
            source = RunInput(file, body.window(0, chars), Span(0, chars))
        run = Run(
            _replay_config(config, left),
            left.task,
            source,
            ReadOnlyLog(left.events),
            replace(resources, kernel=None),
            RunOptions(recording=left.recording(), answer_type=left.answer_type),
        )
        try:
            yield ReplayedRun(run)
        finally:
            await run.aclose()
            if source.body is not body:
                source.body.close()

    return again


def kernel_after(
    earlier: Sequence[StoredRun],
    config: RunConfig,
    context: ContextFile,
    body: Body,
    resources: RunResources,
) -> SharedKernel:
    """Return the kernel of a run that continues these, oldest first."""

    async def known(left: StoredRun) -> StoredRun:
        return left

    kernel = SharedKernel(context, resources.kernels, seed=f"{earlier[0].run_id}:0", tools=config.tools.docs)
    kernel.past = [
        past_question(partial(known, left), config, lambda: (context, body), resources) for left in earlier
    ]
    return kernel


def _replay_config(config: RunConfig, left: StoredRun) -> RunConfig:
    """Return the config under which `left` is replayed: its limits and settings, no model, no observer."""
    return RunConfig(
        *left.replay_only_models(),
        limits_of(left.facts),
        settings_of(config.settings, left.facts),
        lambda _: None,
        Toolbox().as_recorded(left.facts.get("tools", ())),
    )


def variables_of(earlier: Sequence[PreviousQuestion]) -> tuple[str, ...]:
    """Return what the kernel holds of them: `name: type, size`."""
    known: dict[str, str] = {}
    for one in earlier:
        known.update(one.variables)
    return tuple(known.values())
