"""One question answered in several ways over the same input: is an RLM needed for it at all?

Each way is asked with the same models under the same limits, and its quotes are checked in the same way. All
are kept in the journal: they were paid for.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from rlm.accounting.budget import STOP_REASONS
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import estimate
from rlm.accounting.run_context import RunContext
from rlm.accounting.run_plan import RunPlan, plan_run
from rlm.children.child_calls import ChildCalls
from rlm.documents import Source
from rlm.documents.workspace import Workspace
from rlm.driver.direct import DirectReply, Question, ask_directly, room_of
from rlm.errors import BudgetExhausted, ModelError, UsageError
from rlm.models.base import SliceText, is_extractive
from rlm.models.catalog.prices import Prices
from rlm.prompts import BudgetExceeded, SliceTooLarge
from rlm.results import RunResult, StopReason
from rlm.retrieval import Retriever
from rlm.runs.config import RunConfig
from rlm.runtime import RLM
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import ChildBatch, ChildSlice, Span
from rlm.settings import DirectSettings, Limits
from rlm.tasks.comparison.table import METHODS, Comparison, Method, MethodRow
from rlm.tasks.jobs.job import Job, open_job, resume_job
from rlm.tasks.jobs.parts import Part

__all__ = ["compare", "plan_comparison", "resume_comparison"]

TOP_K = 8
_NO_WORDS = "no passage of the input holds a word of the question"
_SHRINK = 0.9
_MIN_CHARS = 1_000  # of the input that a direct call is tried with
_MAX_CHARS = 8  # that a token has

_WEIGHTS: Mapping[Method, int] = MappingProxyType({"rlm": 3, "map-reduce": 3, "direct": 1, "bm25": 1})
"""Of what is left of the limits when a method begins, what it may take beside those still to come."""


@dataclass(frozen=True, slots=True)
class _Way:
    """What one method works with: one set of books, for it alone."""

    config: RunConfig
    task: str
    body: Body
    run_context: RunContext
    settings: DirectSettings

    async def ask(self, pieces: Sequence[SliceText]) -> DirectReply:
        return await ask_directly(
            self.config.model,
            Question(self.task, self.task),
            pieces,
            self.body,
            run_context=self.run_context,
            settings=self.settings,
        )

    def piece(self, span: Span) -> SliceText:
        document = self.body.document_at(span.start)
        return SliceText(self.body.text(*span), span, document.name if document else None)


Work = Callable[[Part], Awaitable[RunResult]]
_Asked = tuple[DirectReply | None, str]
"""A reply, or None where there was nothing to ask about; and a note."""


async def plan_comparison(
    rlm: RLM, context: Sequence[Source], methods: Sequence[Method] = METHODS
) -> RunPlan:
    """What the methods would about take together. Asks no model. Raises UsageError."""
    prices = Prices(rlm.settings.facts)

    def plan(method: Method, body: Body) -> RunPlan:
        one_call = method in ("direct", "bm25")
        planned = plan_run(
            rlm.model,
            rlm.sub_model,
            body,
            strategy="direct" if one_call else "rlm",
            limits=rlm.limits if method == "rlm" else replace(rlm.limits, rounds=1),
            prompt_tokens=rlm.settings.child.prompt_tokens,
            prices=prices,
        )
        window = rlm.model.window.context
        if not one_call or planned.tokens <= window:
            return planned
        # What does not fit one prompt is left out of it.
        return replace(planned, tokens=window, cost_usd=prices.at_most(rlm.model, window, 0))

    with Workspace() as workspace:
        loaded = await workspace.load(context)
        with loaded.context.open() as body:
            return reduce(RunPlan.plus, [plan(method, body) for method in methods])


async def compare(
    rlm: RLM,
    task: str,
    context: Sequence[Source],
    *,
    methods: Sequence[Method] = METHODS,
    top_k: int = TOP_K,
) -> Comparison:
    """Answer `task` over `context` by every one of `methods`, one after another, all within the limits of
    `rlm`. A method that fails or runs into a limit is a row that says so. Raises UsageError, SandboxRefused
    and JournalError like `RLM.run`."""
    if not task.strip():
        raise UsageError("the question is empty: say what is to be answered")

    def facts(_: Body) -> Mapping[str, Any]:
        return {"methods": list(methods), "top_k": top_k}

    async with open_job(rlm, "compare", task, context, facts=facts) as (job, _):
        return await _compared(job, task, methods, top_k)


async def resume_comparison(rlm: RLM, run: str) -> Comparison:
    """Go on with a comparison that was left, by its run's name or the start of it; what was paid is not paid
    again. One that has ended is given as it was. Raises JournalError and UsageError."""
    async with resume_job(rlm, "compare", run) as (job, left):
        return await _compared(job, left.task, left.facts["methods"], left.facts["top_k"])


async def _compared(job: Job, task: str, methods: Sequence[Method], top_k: int) -> Comparison:
    config = job.config
    fits = _fitting(config, job.body) == job.body.chars
    rows: dict[Method, MethodRow] = {}
    # The RLM first: where the sandbox is refused nothing is spent.
    order = sorted(methods, key=lambda one: one != "rlm")
    async with job.parts(len(order)) as parts:
        for place, method in enumerate(order):
            limits = _limits(job, method, order[place:])
            work = _by_rlm(task) if method == "rlm" else _by(_works(method, top_k), task)
            found = await parts.run_part(method, f"asking by {method}", limits, work)
            if isinstance(found, str):
                found = _failed(job, found)
            rows[method] = MethodRow(method, found, _note(method, found))
    models = not (is_extractive(config.model) and is_extractive(config.sub_model))
    found_rows = tuple(rows[method] for method in methods)
    comparison = Comparison(task, job.body.chars, fits, models, found_rows)
    answered = any(row.result.answer is not None for row in found_rows)
    if not answered and all(row.result.stop_reason == "model" for row in found_rows):
        job.stop_reason = "model"
    await job.finish(comparison.advice if answered else None, parts=[row.result for row in found_rows])
    return comparison


def _limits(job: Job, method: Method, to_come: Sequence[Method]) -> Limits:
    """A share of what is left for a method, beside those still to come."""
    limits, left = job.config.limits, job.remaining()
    share = _WEIGHTS[method] / sum(_WEIGHTS[one] for one in to_come)
    return replace(
        limits,
        sub_calls=max(1, int(left["sub_calls"] * share)),
        tokens=max(1, int(left["tokens"] * share)),
        cost_usd=left["cost_usd"] * share,
        seconds=max(1.0, left["seconds"] * share),
    )


def _works(method: Method, top_k: int) -> Callable[[_Way], Awaitable[_Asked]]:
    if method == "direct":
        return _direct
    if method == "map-reduce":
        return _map_reduce
    return lambda way: _bm25(way, top_k)


def _by_rlm(task: str) -> Work:
    async def answered(part: Part) -> RunResult:
        settings = replace(part.config.settings, strategy="rlm")
        return await replace(part, config=replace(part.config, settings=settings)).run(task)

    return answered


def _by(work: Callable[[_Way], Awaitable[_Asked]], task: str) -> Work:
    """What `work` comes to, as a run's result; its note is its warning."""

    async def answered(part: Part) -> RunResult:
        began = time.monotonic()
        way = _Way(
            part.config, task, part.part_resources.source.body, part.run_context, part.config.settings.direct
        )
        reply: DirectReply | None = None
        reason: StopReason = "finalized"
        try:
            reply, note = await work(way)
        except BudgetExhausted as error:
            reason, note = STOP_REASONS[error.limit], error.cause
        except ModelError as error:
            reason, note = "model", str(error)
        except BadCall as error:
            reason, note = "sub_calls", str(error)
        answer = reply.text if reply is not None and reply.complete and reply.text else None
        if answer is None and not note:
            note = "it says that the text does not hold the answer"
        return RunResult(
            run_id=part.run_context.log.run_id,
            answer=answer,
            confidence=None,
            stop_reason=reason,
            forced=False,
            strategy="direct",
            citations=() if reply is None else reply.citations,
            coverage=part.run_context.coverage.report(),
            usage=(),
            rounds=0,
            sub_calls=int(part.run_context.budget.used()["sub_calls"]["used"]),
            seconds=round(time.monotonic() - began, 3),
            warnings=(note,) if note else (),
        )

    return answered


def _failed(job: Job, why: str) -> RunResult:
    """The result of a method that did not come to one."""
    return RunResult(
        run_id=job.run_id,
        answer=None,
        confidence=None,
        stop_reason="kernel",
        forced=False,
        strategy="rlm",
        citations=(),
        coverage=CoverageLedger(job.body.chars).report(),
        usage=(),
        rounds=0,
        sub_calls=0,
        seconds=0.0,
        warnings=(why,),
    )


def _note(method: Method, result: RunResult) -> str:
    """What a method could not do. Of the RLM's warnings only the one that says why there is no answer."""
    if not result.warnings or (method == "rlm" and result.answer is not None):
        return ""
    return result.warnings[-1]


async def _direct(way: _Way) -> _Asked:
    """One call over the whole, or over as much of its beginning as one prompt holds."""
    body = way.body
    room = min(body.chars, max(_fitting(way.config, body), _MIN_CHARS))
    while True:
        try:
            spans = [Span(one.start, min(one.end, room)) for one in body.documents if one.start < room]
            reply = await way.ask([way.piece(span) for span in spans])
            break
        except (SliceTooLarge, BudgetExceeded):
            if room < _MIN_CHARS:
                return None, "the question leaves no room for the input: ask a shorter one"
            room = int(room * _SHRINK)
    if reply.complete:
        way.run_context.coverage.note_answered([Span(0, room)])
    if room == body.chars:
        return reply, ""
    return (
        reply,
        f"it saw the first {100 * room / body.chars:.1f} % of the input: more does not fit one prompt",
    )


async def _bm25(way: _Way, top_k: int) -> _Asked:
    """One call over the passages that rank best for the question."""

    def ranked() -> list[Span]:
        with Retriever(way.body) as retriever:
            return [Span(pack.start, pack.end) for pack in retriever.retrieve(way.task, limit=top_k)]

    spans = await asyncio.to_thread(ranked)
    if not spans:
        return None, _NO_WORDS
    reply = await way.ask([way.piece(span) for span in spans])
    if reply.complete:
        way.run_context.coverage.note_answered(spans)
    return reply, ""


async def _map_reduce(way: _Way) -> _Asked:
    """A child for every part of the input, then one call over what they found."""
    config = way.config
    settings = replace(config.settings.child, concurrency=config.limits.concurrency)
    children = ChildCalls(config.sub_model, way.body, run_context=way.run_context, settings=settings)
    size = int(children.plan()["recommended_chunk"] or 1)
    spans = [
        Span(start, min(start + size, one.end))
        for one in way.body.documents
        for start in range(one.start, one.end, size)
    ]
    batch = ChildBatch((way.task,) * len(spans), tuple(ChildSlice((span,)) for span in spans), chunked=True)
    answers = await children.answers(batch)
    unheard = [answer.error for answer in answers if answer.error_type == "model"]
    if unheard and len(unheard) == len(spans):
        raise ModelError(f"no part was answered: {unheard[0]}")
    failed = sum(answer.error is not None for answer in answers)
    found = [
        SliceText(answer.text, None, f"part {number} of {len(spans)}")
        for number, answer in enumerate(answers, 1)
        if answer.error is None and answer.found
    ]
    note = f"{failed} of {len(spans)} parts failed" if failed else ""
    if not found:
        return None, note or f"none of {len(spans)} parts holds the answer"
    kept = len(found)
    while True:
        try:
            reply = await way.ask(found[:kept])
            break
        except (SliceTooLarge, BudgetExceeded):
            if kept == 1:
                return None, "what one part answered does not fit a prompt"
            kept = max(1, int(kept * _SHRINK))
    if kept < len(found):
        note = (
            f"{note + '; ' if note else ''}what {len(found) - kept} of {len(found)} parts found did not fit"
        )
    return reply, note


def _fitting(config: RunConfig, body: Body) -> int:
    """Characters of the body's beginning that one prompt of the root model holds, by the estimate."""
    room = room_of(config.model, config.settings.direct)
    if room <= 0:
        return 0
    most = body.text(0, min(body.chars, room * _MAX_CHARS))
    tokens = estimate(most)
    return len(most) if tokens <= room else int(len(most) * room / tokens)
