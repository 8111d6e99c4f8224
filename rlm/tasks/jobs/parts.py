"""The parts of a job: runs over one input, with one journal, each within its share of one budget.

A part that has ended is in the journal with its result. When the job is resumed, that result is taken from
there, and a part that had begun resumes where it stopped.
"""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, get_args

from rlm.accounting.coverage import Above, CoverageLedger
from rlm.accounting.intervals import IntervalSet
from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType
from rlm.children.run_input import RunInput
from rlm.errors import JournalError, ModelError, RLMError, UsageError, cause_of
from rlm.events import (
    ChildEnded,
    ChildrenStarted,
    Event,
    KernelOpened,
    Loading,
    ModelAnswered,
    PartRun,
    SubRLMStarted,
    ToolEnded,
)
from rlm.journal import JournalEvent as Entry
from rlm.playback.recording import Noted, Recording
from rlm.results import RunResult
from rlm.runs.config import RunConfig
from rlm.runs.run import Parent, Run, RunOptions, RunResources
from rlm.sandbox.errors import SandboxError, SandboxRefused, SourceChanged
from rlm.sandbox.host.pool import KernelPool
from rlm.sandbox.types import Span
from rlm.settings import Limits

__all__ = ["Part", "PartResources", "Parts", "RecordedPart", "recorded_parts"]

_FORWARDED = (ChildrenStarted, ChildEnded, ModelAnswered, Loading, SubRLMStarted, ToolEnded)
_MAX_SPANS = 2_000
"""Spans of what a part saw that the journal keeps, for each way of seeing. The longest are kept."""
_UNDER_A_JOB = -1


@dataclass(frozen=True, slots=True)
class RecordedPart:
    """A part as the journal stores it: the limits it began with and, once it has ended, its result or its
    error, and the spans that it saw."""

    limits: Limits
    result: RunResult | None = None
    error: str | None = None
    seen: Mapping[Noted, Sequence[Span]] = field(default_factory=dict)

    @property
    def ended(self) -> bool:
        return self.result is not None or self.error is not None


@dataclass(frozen=True, slots=True)
class PartResources:
    """What all parts of a job share: its config, context, input, resources, kernels and recording. `unread`
    names the documents that were not read."""

    config: RunConfig
    run_context: RunContext
    source: RunInput
    resources: RunResources
    kernels: KernelPool
    recording: Recording
    unread: Sequence[str] = ()


@dataclass(frozen=True, slots=True)
class Part:
    """One part, with the config and context of its share, and the recording of what it did before."""

    name: str
    config: RunConfig
    run_context: RunContext
    recording: Recording
    coverage: Above
    part_resources: PartResources

    async def run(
        self, task: str, answer_type: AnswerType | None = None, *, checks_support: bool = True
    ) -> RunResult:
        """Answer `task` over the whole input, as `RLM.run` does. `checks_support` is False if the job itself
        checks the claims of its parts."""
        kernels = self.config.kernels(self.part_resources.kernels)
        try:
            run = Run(
                self.config,
                task,
                self.part_resources.source,
                self.run_context.log,
                replace(self.part_resources.resources, kernels=kernels),
                RunOptions(
                    recording=self.recording,
                    answer_type=answer_type,
                    parent=Parent(self.run_context, self.coverage, _UNDER_A_JOB),
                    checks_support=checks_support,
                    unread=self.part_resources.unread,
                ),
            )
            return await run.run()
        finally:
            await kernels.close()


class Parts:
    """The parts of one job. `past` holds those in the journal; `count` is how many there will be."""

    def __init__(self, part_resources: PartResources, past: Mapping[str, RecordedPart], count: int) -> None:
        self._part_resources = part_resources
        self._past = past
        self._count = count
        self._done: list[RunResult] = []
        self._ended = 0
        self._levels: set[int] = set()
        self._seen: dict[str, Mapping[Noted, Sequence[Span]]] = {}

    def unread_documents(self, name: str) -> list[str]:
        """Return the documents of which the part `name`, which has ended, read nothing and had nothing
        answered. It may have searched them."""
        seen = self._seen.get(name, {})
        looked = IntervalSet([*seen.get("read", ()), *seen.get("answered", ())])
        documents = self._part_resources.source.body.documents
        return [
            one.name
            for one in documents
            if one.end > one.start
            and next(looked.gaps(Span(one.start, one.end)), None) == (one.start, one.end)
        ]

    def is_recorded(self, name: str) -> bool:
        """Return whether the journal has the end of that part."""
        return name in self._past and self._past[name].ended

    async def run_part(
        self, name: str, title: str, limits: Limits, work: Callable[[Part], Awaitable[RunResult]]
    ) -> RunResult | str:
        """Return the result of the part `name` (no slash in it), or why it failed.

        The result comes from the journal if the part ended before, else from `work`. A part that was
        interrupted keeps the limits it began with. Raises SandboxRefused and JournalError, which end the job.
        """
        past = self._past.get(name)
        begun: Literal["known", "running"] = "known" if self.is_recorded(name) else "running"
        self._part_resources.config.tell(PartRun(name, title, begun, self._ended, self._count))
        if past is None or not past.ended:
            past = await self._execute_part(name, title, past, limits, work)
        self._seen[name] = past.seen
        for what, spans in past.seen.items():
            self._part_resources.run_context.coverage.note(what, spans)
        self._ended += 1
        has_answer = past.result is not None and past.result.answer is not None
        ended: Literal["finished", "failed"] = "finished" if has_answer else "failed"
        self._part_resources.config.tell(PartRun(name, title, ended, self._ended, self._count))
        if past.result is None:
            return past.error or "no reason recorded"
        self._done.append(past.result)
        return past.result

    async def _execute_part(
        self,
        name: str,
        title: str,
        begun: RecordedPart | None,
        limits: Limits,
        work: Callable[[Part], Awaitable[RunResult]],
    ) -> RecordedPart:
        """Run `work`, and write its start and its end to the journal. Returns the end as it was written."""
        run_context = self._part_resources.run_context
        limits = begun.limits if begun else limits
        if begun is None:
            await run_context.log.append("part", {"name": name, "title": title, "limits": limits.to_json()})
        seen = _Seen()
        part = self._part(name, limits, seen)
        result: RunResult | None = None
        error: str | None = None
        again = False
        try:
            result = replace(await work(part), usage=part.run_context.metered.branch_usage)
        except (SandboxRefused, SourceChanged, JournalError, UsageError):
            raise
        except (RLMError, SandboxError) as failure:
            error, again = cause_of(failure), isinstance(failure, ModelError | SandboxError)
        else:
            again = result.stop_reason in ("model", "cancelled")
        # Return what the journal gives back, so that a resumed job makes the same report.
        data = None if result is None else json.loads(json.dumps(result.to_json()))
        facts = {"name": name, "error": error, "again": again, "result": data, "seen": seen.to_json()}
        ended = _read_part(facts, limits)
        done = [*self._done, *([ended.result] if ended.result else [])]
        totals = run_context.metered.totals(
            sum(one.rounds for one in done), sum(one.sub_calls for one in done)
        )
        await run_context.log.append("part_ended", facts, totals=totals)
        return ended

    def _part(self, name: str, limits: Limits, seen: _Seen) -> Part:
        run_context = self._part_resources.run_context
        recording = self._part_resources.recording.part(name)
        budget, log = run_context.budget.share(limits), run_context.log.part(name)
        own = RunContext(
            budget,
            run_context.metered.part(budget, log, recording),
            CoverageLedger(self._part_resources.source.body.chars, seen),
            log,
            run_context.concurrency,
            self._tell,
        )
        config = replace(self._part_resources.config, limits=limits, tell=self._tell)
        return Part(name, config, own, recording, seen, self._part_resources)

    def _tell(self, event: Event) -> None:
        """Forward a part's calls to the job's observers, but not its rounds. Its warnings are in its
        result."""
        if isinstance(event, KernelOpened):
            if event.level in self._levels:
                return
            self._levels.add(event.level)
        elif not isinstance(event, _FORWARDED):
            return
        self._part_resources.config.tell(event)


class _Seen:
    """Collects what a part saw of the body, for the job's coverage."""

    def __init__(self) -> None:
        self._spans: dict[Noted, IntervalSet] = {
            what: IntervalSet(limit=_MAX_SPANS) for what in get_args(Noted)
        }

    def note(self, what: Noted, spans: Iterable[Span]) -> None:
        self._spans[what].update(spans)

    def to_json(self) -> dict[str, Any]:
        return {what: [list(span) for span in spans] for what, spans in self._spans.items() if len(spans)}


def recorded_parts(events: Sequence[Entry], *, failed: bool) -> dict[str, RecordedPart]:
    """Return the parts in a job's events. A part whose provider or kernel failed counts as ended if `failed`
    is True; otherwise it is to be resumed."""
    found: dict[str, RecordedPart] = {}
    for event in events:
        if event.kind == "part":
            found[event.data["name"]] = RecordedPart(Limits(**event.data["limits"]))
        elif event.kind == "part_ended" and (failed or not event.data["again"]):
            begun = found[event.data["name"]]
            found[event.data["name"]] = _read_part(event.data, begun.limits)
    return found


def _read_part(facts: Mapping[str, Any], limits: Limits) -> RecordedPart:
    result = facts["result"]
    return RecordedPart(
        limits,
        None if result is None else RunResult.from_json(result),
        facts["error"],
        {what: [Span(*span) for span in spans] for what, spans in facts["seen"].items()},
    )
