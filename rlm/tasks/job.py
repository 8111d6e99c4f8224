"""A job that is no run of a root: its own calls of models within the run's limits, journalled like a run."""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, Literal

from rlm.accounts import Accounts
from rlm.budget import STOP_REASONS, Budget
from rlm.calls import Caller, estimate
from rlm.coverage import CoverageLedger
from rlm.deadline import seconds_left
from rlm.documents import Source
from rlm.engine import Engine
from rlm.errors import BudgetExhausted, JournalError, ModelError
from rlm.events import ChildEnded, Event, RunEnded, RunStarted, Warned
from rlm.models.base import Message, Model, Request
from rlm.notices import warnings_of
from rlm.playback import Playback
from rlm.reasoning import without_reasoning
from rlm.recording import PastReply, Recording
from rlm.resume import source_facts
from rlm.runtime import RLM
from rlm.subcalls import SubCalls
from rlm.tree import Tree
from rlm.types import Citation, Coverage, RunResult, StopReason, Usage
from sandbox.in_kernel.body import Body
from sandbox.types import ChildAnswer, ChildBatch, ChildSlice

if TYPE_CHECKING:
    from rlm.journal import Journal, RunLog

__all__ = ["Job", "Past", "opened_job", "past_of"]

JobKind = Literal["summarize", "research"]


@dataclass(frozen=True, slots=True)
class Past:
    """An earlier run of the same job, and those that it stood on: what models replied, by the call's key."""

    run_id: str
    facts: Mapping[str, Any]
    replies: Mapping[str, list[PastReply]] = field(default_factory=dict)


class Job:
    """One job's books. What it asks is reserved, settled and journalled as a run's calls are."""

    def __init__(
        self, engine: Engine, body: Body, log: RunLog, past: Past | None, warnings: Sequence[str]
    ) -> None:
        self.engine = engine
        self.body = body
        self.log = log
        self.warnings = list(warnings)
        self.stop_reason: StopReason = "finalized"
        self._began = time.monotonic()
        self._budget = Budget(engine.limits)
        playback = Playback(Recording(replies=past.replies) if past else None)
        self._caller = Caller(
            self._budget, log, playback, engine.tell, engine.prices, remember=engine.settings.cache
        )
        self.coverage = CoverageLedger(body.chars)
        accounts = Accounts(
            self._budget,
            self._caller,
            self.coverage,
            log,
            playback,
            Tree(engine.limits.concurrency),
            self._observe,
        )
        self._children = SubCalls(
            engine.sub_model,
            body,
            accounts=accounts,
            settings=replace(engine.settings.child, concurrency=engine.limits.concurrency),
        )

    @property
    def run_id(self) -> str:
        return self.log.run_id

    async def ask(self, model: Model, prompt: str, output_tokens: int) -> str:
        """One reply, without the thinking some models write. Raises ModelError, also when it was cut, and
        BudgetExhausted."""
        most = max(1, min(output_tokens, model.window.output))
        request = Request("summary", (Message("user", prompt),), most, task="")
        tokens = estimate(prompt)
        async with seconds_left(self._budget):
            call = await self._caller.ask(model, request, prompt_tokens=tokens, facts={"prompt": prompt})
        if call.reply.finish_reason != "stop":
            raise ModelError(f"{model.name} did not end its reply ({call.reply.finish_reason})")
        return without_reasoning(call.reply.text).strip()

    async def children(
        self,
        prompts: Sequence[str],
        slices: Sequence[ChildSlice | None],
        *,
        schema: Mapping[str, Any] | None = None,
    ) -> list[ChildAnswer]:
        """The children's answers, in order. Raises BadCall, before anything is spent, when a slice is too
        large."""
        answers: dict[int, ChildAnswer] = {}

        async def answered(position: int, answer: ChildAnswer) -> None:
            answers[position] = answer

        batch = ChildBatch(tuple(prompts), tuple(slices), schema=schema, chunked=True)
        await self._children.serve(batch, answered)
        return [answers[position] for position in range(len(prompts))]

    def progress(self, at: int, of: int) -> None:
        """Tell whoever watches which call of a row is under way."""
        self.engine.tell(
            ChildEnded(
                ok=True,
                cached=False,
                done=at - 1,
                asked=of,
                tokens=self._caller.tokens,
                cost_usd=self._caller.cost_usd,
                covered_chars=self.coverage.answered_chars,
                chars=self.body.chars,
            )
        )

    def warn(self, message: str) -> None:
        self._observe(Warned(message))

    def stopped(self, error: ModelError | BudgetExhausted) -> None:
        """Note why the job could not do all it was to do."""
        self.stop_reason = STOP_REASONS[error.limit] if isinstance(error, BudgetExhausted) else "model"

    async def finish(
        self, answer: Any, citations: Sequence[Citation] = (), *, runs: Sequence[RunResult] = ()
    ) -> RunResult:
        """The result, written to the journal. Once, at the end. `runs` are those that the job was made of:
        their usage is counted in, and their coverage, as far as it is known to have been had together."""
        result = RunResult(
            run_id=self.run_id,
            answer=answer,
            confidence=None,
            stop_reason=self.stop_reason,
            forced=False,
            strategy="rlm",
            citations=tuple(citations),
            coverage=_least([self.coverage.report(), *(run.coverage for run in runs)]),
            usage=_together([self._caller.usage(), *(run.usage for run in runs)]),
            rounds=sum(run.rounds for run in runs),
            sub_calls=self._children.calls + sum(run.sub_calls for run in runs),
            seconds=round(time.monotonic() - self._began, 3),
            warnings=tuple(self.warnings),
        )
        self.engine.tell(RunEnded(result.stop_reason, result.seconds))
        costs = [one.cost_usd for one in result.usage]
        cost = None if None in costs else sum(cost for cost in costs if cost is not None)
        totals = {"rounds": result.rounds, "sub_calls": result.sub_calls, "cost_usd": cost}
        await self.log.append("finished", {**result.to_json(), **totals})
        return result

    def _observe(self, event: Event) -> None:
        if isinstance(event, Warned):
            self.warnings.append(event.message)
        self.engine.tell(event)


def _least(coverages: Sequence[Coverage]) -> Coverage:
    """The least that several runs over one body covered together: in each way as much as the best of them."""
    best = max(coverages, key=lambda one: (one.complete, -one.uncovered_chars))
    fields = ("read_chars", "scanned_chars", "sent_chars", "answered_chars")
    return replace(best, **{name: max(getattr(one, name) for one in coverages) for name in fields})


def _together(usages: Sequence[Sequence[Usage]]) -> tuple[Usage, ...]:
    """The usage of several runs, by model."""
    sums: dict[str, Usage] = {}
    for one in (usage for usages_of_one in usages for usage in usages_of_one):
        before = sums.get(one.model, Usage(one.model, 0, 0, 0, 0, 0.0))
        unknown = before.cost_usd is None or one.cost_usd is None
        sums[one.model] = Usage(
            one.model,
            before.calls + one.calls,
            before.input_tokens + one.input_tokens,
            before.output_tokens + one.output_tokens,
            before.cached_tokens + one.cached_tokens,
            None if unknown else (before.cost_usd or 0.0) + (one.cost_usd or 0.0),
        )
    return tuple(sums.values())


@asynccontextmanager
async def opened_job(
    rlm: RLM,
    kind: JobKind,
    task: str,
    sources: Sequence[str | Path | Source],
    *,
    facts: Callable[[Body], Mapping[str, Any]],
    since: str | None = None,
) -> AsyncIterator[tuple[Job, Past | None]]:
    """A job over `sources`, and the run `since` that it goes on from. `facts` are journalled with it; what it
    raises comes out before anything is spent or written. Raises UsageError for the sources,
    JournalError when the run is not there or was no job of this kind."""
    from rlm.journal import new_run_id

    async with rlm.opened(sources) as (engine, loaded, journal):
        past = None if since is None else await past_of(journal, since, kind)
        with loaded.context.open() as body:
            described = facts(body)
        settings = {
            **engine.facts(),
            **described,
            "job": kind,
            "since": past.run_id if past else None,
            "context_sha256": loaded.context.sha256,
            "context_chars": loaded.context.chars,
            "documents": len(loaded.context.documents),
            "warnings": warnings_of(loaded),
            "sources": source_facts(sources),
        }
        with loaded.context.open() as body:
            async with journal.run(new_run_id(), task, settings) as log:
                engine.tell(RunStarted(log.run_id, "rlm", engine.model.name))
                yield Job(engine, body, log, past, warnings_of(loaded)), past


async def past_of(journal: Journal, run: str, kind: JobKind) -> Past:
    """The run whose name is or begins with `run`, and the runs before it. Raises JournalError."""
    name = await journal.resolve(run)
    first = (await journal.get(name)).settings
    if first.get("job") != kind:
        raise JournalError(f"run {name} is no {kind} run: `rlm runs` lists them all")
    replies: dict[str, list[PastReply]] = {}
    at: str | None = name
    seen: set[str] = set()
    while at is not None and at not in seen:
        seen.add(at)
        for key, found in Recording.of(await journal.events(at)).replies.items():
            replies.setdefault(key, []).extend(found)
        before = (await journal.get(at)).settings.get("since")
        # What was removed meanwhile only costs its calls again.
        known = {one.run_id for one in await journal.runs(None)} if before else set()
        at = before if before in known else None
    return Past(name, first, replies)
