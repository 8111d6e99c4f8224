"""Compare methods of answering one question over the same input. It shows whether an RLM is needed.

All methods use the same models and share one set of limits. Their quotes are checked in the same way, and
each result is journalled as a part of the job.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import replace
from functools import reduce
from types import MappingProxyType
from typing import Any

from rlm.accounting.budget import STOP_REASONS
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import estimate
from rlm.accounting.run_context import RunContext
from rlm.accounting.run_plan import RunPlan, plan_run
from rlm.documents import Context, sources_of
from rlm.documents.workspace import Workspace
from rlm.driver.direct import DirectReply, Question, ask_directly, room_of
from rlm.errors import BudgetExhausted, ModelError
from rlm.lazy_dataclass import dataclass
from rlm.models.base import SliceText
from rlm.models.catalog.info import Prices
from rlm.prompts import BudgetExceeded, SliceTooLarge
from rlm.results import Note, RunResult, StopReason, Strategy
from rlm.retrieval import Retriever
from rlm.runs.config import RunConfig
from rlm.runs.opening import cache_of, check_question, require_model
from rlm.runtime import RLM
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.settings import DirectSettings, Limits
from rlm.tasks.comparison.table import METHODS, Comparison, Method, MethodRow
from rlm.tasks.jobs.job import Job, open_job, open_stored_job
from rlm.tasks.jobs.parts import Part

__all__ = ["compare", "plan_comparison", "resume_comparison"]

TOP_K = 8
_NO_WORDS = "no passage of the input contains a word of the question"
_SHRINK = 0.9
_MIN_CHARS = 1_000
"""A direct call is not tried with less of the input than this."""
_MAX_CHARS_PER_TOKEN = 8

_WEIGHTS: Mapping[Method, int] = MappingProxyType({"rlm": 3, "map-reduce": 3, "direct": 1, "bm25": 1})
"""How the remaining limits are divided between a method that begins and those that follow it."""


@dataclass(frozen=True, slots=True)
class _MethodInput:
    """What a method works with. Its run context is its own, so that its calls are counted separately."""

    config: RunConfig
    task: str
    body: Body
    run_context: RunContext
    settings: DirectSettings

    async def ask(self, pieces: Sequence[SliceText]) -> DirectReply:
        """Ask the question once over `pieces`. Raises SliceTooLarge and BudgetExceeded if they do not fit."""
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
_MethodReply = tuple[DirectReply | None, str]
"""A reply, or None if no call was possible; and a note, "" for none."""


async def plan_comparison(rlm: RLM, context: Context, methods: Sequence[Method] = METHODS) -> RunPlan:
    """Estimate what the methods need together. Asks no model. Raises UsageError."""
    require_model(rlm.model, "a comparison")
    prices = Prices(rlm.settings.facts)

    def plan(method: Method, body: Body) -> RunPlan:
        one_call = method in ("direct", "bm25")
        planned = plan_run(
            rlm.model,
            rlm.sub_model,
            body,
            strategy="direct" if one_call else "rlm",
            limits=rlm.limits if method == "rlm" else replace(rlm.limits, max_rounds=1),
            prompt_tokens=rlm.children.default.prompt_tokens,
            prices=prices,
        )
        window = rlm.model.window.context
        if not one_call or planned.tokens <= window:
            return planned
        # A method with one call leaves out what does not fit its prompt.
        return replace(planned, tokens=window, cost_usd=prices.at_most(rlm.model, window, 0))

    with Workspace() as workspace:
        loaded = await workspace.load(sources_of(context), cache=cache_of(rlm.settings))
        with loaded.context.open() as body:
            return reduce(RunPlan.plus, [plan(method, body) for method in methods])


async def compare(
    rlm: RLM,
    task: str,
    context: Context,
    *,
    methods: Sequence[Method] = METHODS,
    top_k: int = TOP_K,
) -> Comparison:
    """Answer `task` over `context` with each of `methods` in turn, within the limits of `rlm`. If a method
    fails or hits a limit, its row says so. Raises UsageError, SandboxRefused and JournalError."""
    check_question(task)
    require_model(rlm.model, "a comparison")

    def facts(_: Body) -> Mapping[str, Any]:
        return {"methods": list(methods), "top_k": top_k}

    async with open_job(rlm, "compare", task, sources_of(context), facts=facts) as job:
        return await _run_methods(job, task, methods, top_k)


async def resume_comparison(rlm: RLM, run: str) -> Comparison:
    """Resume a comparison by its run's name or a unique start of it. Journalled calls are not made again. A
    comparison that has ended is returned unchanged. Raises JournalError and UsageError."""
    async with open_stored_job(rlm, "compare", run) as (job, left):
        return await _run_methods(job, left.task, left.facts["methods"], left.facts["top_k"])


async def _run_methods(job: Job, task: str, methods: Sequence[Method], top_k: int) -> Comparison:
    config = job.config
    fits = _count_fitting_chars(config, job.body) == job.body.chars
    rows: dict[Method, MethodRow] = {}
    # The RLM runs first: if the sandbox is refused, nothing has been spent.
    order = sorted(methods, key=lambda one: one != "rlm")
    async with job.parts(len(order)) as parts:
        for place, method in enumerate(order):
            limits = _share_limits(job, method, order[place:])
            work = (
                _work_with_strategy(method, task)
                if method in ("rlm", "map-reduce")
                else _work_with_calls(_choose_function(method, top_k), task)
            )
            result = await parts.run_part(method, f"asking by {method}", limits, work)
            if isinstance(result, str):
                result = _make_failed_result(job, result)
            rows[method] = MethodRow(method, result, _note(method, result))
    ordered = tuple(rows[method] for method in methods)
    comparison = Comparison(task, job.body.chars, fits, ordered)
    has_answer = any(row.result.answer is not None for row in ordered)
    if not has_answer and all(row.result.stop_reason == "model" for row in ordered):
        job.stop_reason = "model"
    await job.finish(comparison.advice if has_answer else None, parts=[row.result for row in ordered])
    return comparison


def _share_limits(job: Job, method: Method, remaining: Sequence[Method]) -> Limits:
    """Return the method's share of what is left of the limits. `remaining` are the methods that have not run
    yet, including this one."""
    limits, left = job.config.limits, job.remaining()
    share = _WEIGHTS[method] / sum(_WEIGHTS[one] for one in remaining)
    return replace(
        limits,
        max_calls=max(1, int(left["sub_calls"] * share)),
        max_total_tokens=max(1, int(left["tokens"] * share)),
        max_cost=left["cost_usd"] * share,
        max_seconds=max(1.0, left["seconds"] * share),
    )


def _choose_function(method: Method, top_k: int) -> Callable[[_MethodInput], Awaitable[_MethodReply]]:
    if method == "direct":
        return _direct
    return lambda inputs: _bm25(inputs, top_k)


def _work_with_strategy(strategy: Strategy, task: str) -> Work:
    """Return work that is a run of its own."""

    async def work(part: Part) -> RunResult:
        settings = replace(part.config.settings, strategy=strategy)
        return await replace(part, config=replace(part.config, settings=settings)).run(task)

    return work


def _work_with_calls(function: Callable[[_MethodInput], Awaitable[_MethodReply]], task: str) -> Work:
    """Return work that turns the reply of `function` into a run's result. Its note becomes a warning."""

    async def work(part: Part) -> RunResult:
        began = time.monotonic()
        inputs = _MethodInput(
            part.config, task, part.part_resources.source.body, part.run_context, part.config.settings.direct
        )
        reply: DirectReply | None = None
        reason: StopReason = "finalized"
        try:
            reply, note = await function(inputs)
        except BudgetExhausted as error:
            reason, note = STOP_REASONS[error.limit], error.cause
        except ModelError as error:
            reason, note = "model", str(error)
        answer = reply.text if reply is not None and reply.complete and reply.text else None
        if answer is None and reply is not None and reply.fault is not None:
            reason = reply.fault
        if answer is None and not note:
            note = "the model replied that the text does not contain the answer"
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
            notes=(Note(note),) if note else (),
        )

    return work


def _make_failed_result(job: Job, why: str) -> RunResult:
    """Return the result of a method whose part failed."""
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
        notes=(Note(why),),
    )


def _note(method: Method, result: RunResult) -> str:
    """Return the method's last warning. The RLM's warning is used only if it has no answer."""
    if not result.warnings or (method == "rlm" and result.answer is not None):
        return ""
    return result.warnings[-1]


async def _direct(inputs: _MethodInput) -> _MethodReply:
    """Make one call over the whole input, or over as much of its beginning as fits one prompt."""
    body = inputs.body
    room = min(body.chars, max(_count_fitting_chars(inputs.config, body), _MIN_CHARS))
    while True:
        try:
            spans = [Span(one.start, min(one.end, room)) for one in body.documents if one.start < room]
            reply = await inputs.ask([inputs.piece(span) for span in spans])
            break
        except (SliceTooLarge, BudgetExceeded):
            if room < _MIN_CHARS:
                return None, "the question leaves no room for the input in the prompt: ask a shorter question"
            room = int(room * _SHRINK)
    if reply.complete:
        inputs.run_context.coverage.note("answered", [Span(0, room)])
    if room == body.chars:
        return reply, ""
    return (
        reply,
        f"the call read the first {100 * room / body.chars:.1f} % of the input: more does not fit one prompt",
    )


async def _bm25(inputs: _MethodInput, top_k: int) -> _MethodReply:
    """Make one call over the passages that rank best for the question."""

    def rank_passages() -> list[Span]:
        with Retriever(inputs.body) as retriever:
            return [Span(pack.start, pack.end) for pack in retriever.retrieve(inputs.task, limit=top_k)]

    spans = await run_in_daemon_thread(rank_passages, name="rlm-rank")
    if not spans:
        return None, _NO_WORDS
    reply = await inputs.ask([inputs.piece(span) for span in spans])
    if reply.complete:
        inputs.run_context.coverage.note("answered", spans)
    return reply, ""


def _count_fitting_chars(config: RunConfig, body: Body) -> int:
    """Estimate how many characters of the body's beginning fit one prompt of the root model."""
    room = room_of(config.model, config.settings.direct)
    if room <= 0:
        return 0
    text = body.text(0, min(body.chars, room * _MAX_CHARS_PER_TOKEN))
    tokens = estimate(text)
    return len(text) if tokens <= room else int(len(text) * room / tokens)
