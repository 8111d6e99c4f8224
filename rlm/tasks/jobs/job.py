"""A job: journalled and budgeted like a run, without a root model. Its own code calls the models."""

from __future__ import annotations

import asyncio
import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal

from rlm.accounting.budget import STOP_REASONS, Budget, seconds_left
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import estimate
from rlm.accounting.run_context import ConcurrencyLimits, RunContext
from rlm.answers.support.model_check import SupportModel
from rlm.answers.thinking import reply_so_far, without_reasoning
from rlm.children.child_calls import ChildCalls
from rlm.children.run_input import RunInput
from rlm.documents import Source
from rlm.errors import BudgetExhausted, JournalError, ModelError, UsageError
from rlm.events import ChildEnded, Event, Resumed, RunEnded, RunStarted, Warned
from rlm.journal import EventKind, Journal, ReadOnlyLog, RunLog
from rlm.journal.checks import damage_reported
from rlm.models.base import Message, Model, Request
from rlm.playback.recording import RecordedReply, Recording, replies_by
from rlm.results import Citation, Note, RunResult, StopReason, Support
from rlm.runs.opening import OpenInput
from rlm.runs.stored_run import StoredRun
from rlm.runtime import RLM
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import ChildAnswer, ChildBatch, ChildSlice
from rlm.tasks.jobs.parts import PartResources, Parts, recorded_parts
from rlm.telemetry import span

__all__ = ["Job", "PreviousJob", "open_job", "open_stored_job", "previous_job"]

JobKind = Literal["summarize", "plan", "research", "compare", "attempts"]


_ENDS = frozenset({"finished", "part_ended"})
_RESUMABLE = ("research", "compare", "attempts")
"""The kinds of jobs that can be resumed. The journal stores their input if it can."""


@dataclass(frozen=True, slots=True)
class PreviousJob:
    """An earlier run of the same job. `replies` holds, by call key, its replies and those of the runs that it
    continued. `ended` is what was journalled at its end; None if it did not end."""

    run_id: str
    facts: Mapping[str, Any]
    replies: Mapping[str, list[RecordedReply]] = field(default_factory=dict)
    ended: Mapping[str, Any] | None = None


class Job:
    """One job. Its calls are reserved, settled and journalled like those of a run. `recording` holds replies
    of an earlier run. `left` is the stored run if the job is resumed."""

    def __init__(
        self,
        opened: OpenInput,
        log: RunLog,
        recording: Recording,
        *,
        left: StoredRun | None = None,
    ) -> None:
        self.config = config = opened.config
        self.body = body = opened.body
        self.log = log
        self.warnings = list(opened.warnings)
        self.stop_reason: StopReason = "finalized"
        self._opened = opened
        self._left = left
        self._budget = Budget(config.limits)
        self._recording = recording
        self._began = time.monotonic() - recording.spent.seconds
        self._metered = config.metered(self._budget, log, recording)
        self.coverage = CoverageLedger(body.chars)
        self._run_context = RunContext(
            self._budget,
            self._metered,
            self.coverage,
            log,
            ConcurrencyLimits(config.limits.concurrency),
            self._observe,
        )
        self._children = ChildCalls(
            config.children,
            body,
            run_context=self._run_context,
            settings=config.settings.child,
        )

    @property
    def run_id(self) -> str:
        return self.log.run_id

    def recorded(self, kind: EventKind) -> Mapping[str, Any] | None:
        """Return the data of the first event of that kind in the journal of a resumed job, if any."""
        events = () if self._left is None else self._left.events
        return next((event.data for event in events if event.kind == kind), None)

    async def record(self, kind: EventKind, data: Mapping[str, Any]) -> None:
        """Write an event to the journal, unless the job has ended."""
        if self._left is None or self._left.result is None:
            await self.log.append(kind, data)

    async def ask(
        self,
        model: Model,
        prompt: str,
        output_tokens: int,
        *,
        keep_cut: Literal["", "lines", "text"] = "",
        is_answer: bool = False,
    ) -> str:
        """Call a model once and return the reply without the reasoning that some models write.

        Raises BudgetExhausted, and ModelError, also for a reply that was cut off. With `keep_cut`, a warning
        says so instead, and the whole lines or all of the text is returned. With `is_answer`, observers hear
        the reply as the answer of the job."""
        max_tokens = max(1, min(output_tokens, model.window.output))
        request = Request("summary", (Message("user", prompt),), max_tokens, task="")
        tokens = estimate(prompt)
        async with seconds_left(self._budget):
            call = await self._metered.ask(
                model,
                request,
                prompt_tokens=tokens,
                answer=reply_so_far if is_answer else None,
            )
        if call.reply.finish_reason == "length" and keep_cut:
            text = without_reasoning(call.reply.text).strip()
            used = "its whole lines are used" if keep_cut == "lines" else "it ends within a sentence"
            self.warn(f"{model.name} did not complete its reply: {used}")
            return text.rpartition("\n")[0] if keep_cut == "lines" else text
        if call.reply.finish_reason != "stop":
            raise ModelError(f"{model.name} did not complete its reply ({call.reply.finish_reason})")
        return without_reasoning(call.reply.text).strip()

    def withdraw_draft(self) -> None:
        """Tell the observers that the answer they heard from `ask` is replaced."""
        self._metered.withdraw_answer()

    async def children(
        self,
        prompts: Sequence[str],
        slices: Sequence[ChildSlice | None],
        *,
        schema: Mapping[str, Any] | None = None,
    ) -> list[ChildAnswer]:
        """Return the children's answers, in order. A limit or a failing model becomes the stop reason. Raises
        BadCall before anything is spent if a slice is too large."""
        batch = ChildBatch(tuple(prompts), tuple(slices), schema=schema, chunked=True)
        answers = await self._children.ask_all(batch)
        if self._children.exhausted is not None:
            self.note_stop(self._children.exhausted)
        elif any(answer.error_type == "model" for answer in answers):
            self.stop_reason = "model"
        return answers

    @property
    def chunk_chars(self) -> int:
        """Return the characters of the body that fit one child."""
        return self._children.chunk_chars

    def support_model(self, model: Model) -> SupportModel:
        """Return a model that checks claims, within the budget of the job."""
        return SupportModel(model, self._run_context)

    def progress(self, at: int, of: int) -> None:
        """Report to the observers that call `at` of `of` is in flight."""
        self.config.tell(
            ChildEnded(
                ok=True,
                cached=False,
                done=at - 1,
                asked=of,
                tokens=self._metered.tokens,
                cost_usd=self._metered.cost_usd,
                covered_chars=self.coverage.answered_chars,
                chars=self.body.chars,
            )
        )

    def warn(self, message: str) -> None:
        self._observe(Warned(message))

    def note_stop(self, error: ModelError | BudgetExhausted) -> None:
        """Set the stop reason to the error that kept the job from finishing everything."""
        self.stop_reason = STOP_REASONS[error.limit] if isinstance(error, BudgetExhausted) else "model"

    def remaining(self) -> Mapping[str, float]:
        """Return what is left of each limit, by name."""
        return self._budget.remaining()

    @asynccontextmanager
    async def parts(self, count: int, *, at_once: int = 1) -> AsyncIterator[Parts]:
        """Open the parts of this job: `count` runs, at most `at_once` at a time."""
        async with AsyncExitStack() as stack:
            pool = self._opened.kernels
            if pool is None:
                pool = self.config.shared_kernels(at_once)
                stack.push_async_callback(pool.close)
            resources = self._opened.resources(pool)
            source = RunInput(self._opened.context, self.body)
            part_resources = PartResources(
                self.config, self._run_context, source, resources, pool, self._recording, self._opened.unread
            )
            events = () if self._left is None else self._left.events
            # Parts that failed because of their provider are retried, unless the job has ended.
            with damage_reported(self.run_id):
                past = recorded_parts(events, failed=self._left is not None and self._left.result is not None)
            yield Parts(part_resources, past, count)

    async def finish(
        self,
        answer: Any,
        citations: Sequence[Citation] = (),
        *,
        parts: Sequence[RunResult] = (),
        support: Support | None = None,
        details: Mapping[str, Any] | None = None,
        chosen: RunResult | None = None,
    ) -> RunResult:
        """Write the result to the journal and return it. Call it once, at the end. `parts` are the results of
        the job's parts, and `chosen` is the one whose answer is that of the job. `support` is that of the
        answer's claims. `details` are journalled with the result, for a run that continues this one."""
        if self._left is not None and self._left.result is not None:
            return self._left.result
        result = RunResult(
            run_id=self.run_id,
            answer=answer,
            confidence=None if chosen is None else chosen.confidence,
            stop_reason=self.stop_reason,
            forced=False,
            strategy="rlm" if chosen is None else chosen.strategy,
            found=answer is not None if chosen is None else chosen.found,
            citations=tuple(citations),
            coverage=self.coverage.report(),
            usage=self._metered.usage(),
            rounds=sum(part.rounds for part in parts),
            sub_calls=self._children.calls,  # those of the parts included
            seconds=round(time.monotonic() - self._began, 3),
            notes=tuple(map(Note, self.warnings)),
            unread=tuple(self._opened.unread),
            support=support,
        )
        self.config.tell(RunEnded(result.stop_reason, result.seconds))
        totals = self._metered.totals(result.rounds, result.sub_calls)
        await self.log.append("finished", {**result.to_json(), **asdict(totals), **(details or {})})
        return result

    async def write_interruption(self) -> None:
        """Write to the journal that the job was cancelled. It can be resumed."""
        self.config.tell(RunEnded("cancelled", time.monotonic() - self._began))
        totals = asdict(self._metered.totals(0, self._children.calls))
        del totals["rounds"]  # only the parts count rounds: so the last tally is kept
        await self.log.append("interrupted", {"stop_reason": "cancelled", **totals})

    def _observe(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.message)
        self.config.tell(event)


@asynccontextmanager
async def open_job(
    rlm: RLM,
    kind: JobKind,
    task: str,
    sources: Sequence[Source],
    *,
    facts: Callable[[Body], Mapping[str, Any]],
    since: str | None = None,
) -> AsyncIterator[tuple[Job, PreviousJob | None]]:
    """Open a job over `sources`, and read the run `since` that it continues.

    `facts` returns what is journalled with the job. It may raise, before anything is spent or written. Raises
    UsageError for the sources, and JournalError if the run is missing or is not a job of this kind.
    """
    async with rlm.open_job(sources) as opened:
        past = None if since is None else await previous_job(opened.journal, since, kind)
        settings = {**facts(opened.body), "job": kind, "since": past.run_id if past else None}
        async with opened.log(task, settings, keep=kind in _RESUMABLE) as log:
            opened.config.tell(RunStarted(log.run_id, "rlm", opened.config.model.name))
            job = Job(opened, log, Recording(replies=past.replies if past else {}))
            async with _recorded(job, kind, task):
                yield job, past


@asynccontextmanager
async def open_stored_job(
    rlm: RLM, kind: JobKind, run: str, given: Sequence[Source] = (), *, is_replay: bool = False
) -> AsyncIterator[tuple[Job, StoredRun]]:
    """Open a stored job to resume it. Journalled calls are not made again. `given` is its input again, for a
    journal that did not keep it.

    A job that has ended makes no calls and writes nothing. In a replay its parts run again, too. Raises
    JournalError, and UsageError if its models differ or its input is missing or has changed.
    """
    left = await rlm.left_job(run, kind)
    stored_name = left.facts["summary_model"]
    if stored_name != rlm.summary_model.name:
        raise UsageError(
            f"run {left.run_id} was started with summary_model {stored_name}, not {rlm.summary_model.name}: "
            f"use {stored_name}"
        )
    log: RunLog
    async with rlm.as_of(left).open_job(left, given=given) as opened, AsyncExitStack() as stack:
        if is_replay:
            events = tuple(event for event in left.events if event.kind not in _ENDS)
            left, log = replace(left, events=events, result=None), ReadOnlyLog(events)
        elif left.result is not None:
            log = ReadOnlyLog(left.events)
            root, children, summary = left.replay_only_models()
            opened.config = replace(opened.config, model=root, sub_models=children, summary_model=summary)
        else:
            log = await stack.enter_async_context(opened.journal.resume(left.run_id))
            # Read the events only now that the job is locked. Another process may have resumed it meanwhile.
            left = replace(left, events=await log.events())
        recording = left.recording()
        replies = [event.data["role"] for event in left.events if "reply" in event.data]
        rounds = replies.count("root")
        opened.config.tell(Resumed(left.run_id, rounds, len(replies) - rounds))
        job = Job(opened, log, recording, left=left)
        async with _recorded(job, kind, left.task):
            yield job, left


@asynccontextmanager
async def _recorded(job: Job, kind: JobKind, task: str) -> AsyncIterator[None]:
    """Trace the job, and write its interruption to the journal."""
    with span("job", name=kind, run_id=job.run_id, task=task) as note:
        try:
            yield
        except asyncio.CancelledError:
            await job.write_interruption()
            raise
        note(job.stop_reason)


async def previous_job(journal: Journal, run: str, kind: JobKind) -> PreviousJob:
    """Read the run whose name is or begins with `run`, and the runs before it. Raises JournalError."""
    name = await journal.resolve(run)
    first = (await journal.get(name)).settings
    if first.get("job") != kind:
        raise JournalError(f"run {name} is not a {kind} run: `rlm runs` lists all runs")
    replies: dict[str, list[RecordedReply]] = {}
    at: str | None = name
    ended: Mapping[str, Any] | None = None
    seen: set[str] = set()
    stored: set[str] = set()
    while at is not None and at not in seen:
        seen.add(at)
        events = await journal.events(at)
        if at == name:
            ended = next((event.data for event in events if event.kind == "finished"), None)
        with damage_reported(at):
            recorded = replies_by("key", events)
        for key, found in recorded.items():
            replies.setdefault(key, []).extend(found)
        before = (await journal.get(at)).settings.get("since")
        # An earlier run may have been removed meanwhile. Then its calls are made again.
        stored = stored or ({one.run_id for one in await journal.runs(None)} if before else set())
        at = before if before in stored else None
    return PreviousJob(name, first, replies, ended)
