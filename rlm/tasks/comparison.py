"""Compare methods of answering one question over the same input. It shows whether an RLM is needed.

All methods use the same models and share one set of limits. Their quotes are checked in the same way, and
each result is journalled as a part of the job.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial, reduce
from types import MappingProxyType
from typing import Any, Literal

from rlm.accounting.budget import STOP_REASONS
from rlm.accounting.coverage import CoverageLedger
from rlm.accounting.metered_model import estimate
from rlm.accounting.run_plan import RunPlan, plan_run
from rlm.documents import Context, sources_of
from rlm.documents.workspace import Workspace
from rlm.driver.direct import DirectReply, Question, room_of
from rlm.errors import BudgetExhausted, ModelError
from rlm.models.catalog.info import Prices
from rlm.prompts import BudgetExceeded, SliceTooLarge
from rlm.results import Citation, Note, RunResult, StopReason
from rlm.runs.config import RunConfig
from rlm.runs.opening import cache_of, check_question, require_model
from rlm.runtime import RLM
from rlm.sandbox.text.body import Body
from rlm.sandbox.types import Span
from rlm.settings import Limits
from rlm.tasks.jobs.job import Job, open_job, open_stored_job
from rlm.tasks.jobs.parts import Part
from rlm.tasks.one_call import SpanCalls

__all__ = ["METHODS", "Comparison", "Method", "MethodRow", "compare", "plan_comparison", "resume_comparison"]

Method = Literal["direct", "bm25", "map-reduce", "rlm"]
METHODS: tuple[Method, ...] = ("direct", "bm25", "map-reduce", "rlm")

_NAMES = {
    "direct": "the direct call",
    "bm25": "the call over the best passages",
    "map-reduce": "map-reduce",
    "rlm": "the RLM",
}
_WORD = re.compile(r"\w+")
_ALIKE = 0.5
"""Answers that share a smaller part of their words than this are reported as different."""


@dataclass(frozen=True, slots=True)
class MethodRow:
    """The result of one method, which the journal stores as the part with the method's name. `note` says what
    the method could not do, for example that it read only the beginning; "" for nothing."""

    method: Method
    result: RunResult
    note: str = ""

    @property
    def citations(self) -> tuple[Citation, ...]:
        return self.result.citations

    @property
    def verified(self) -> int:
        return sum(citation.verified for citation in self.citations)

    @property
    def calls(self) -> int:
        return sum(usage.calls for usage in self.result.usage)

    @property
    def input_tokens(self) -> int:
        return sum(usage.input_tokens for usage in self.result.usage)

    @property
    def output_tokens(self) -> int:
        return sum(usage.output_tokens for usage in self.result.usage)

    @property
    def cost_usd(self) -> float | None:
        """The cost in US dollars; None if a price is unknown."""
        return self.result.cost_usd

    @property
    def is_verified(self) -> bool:
        """Whether there is an answer with citations, and all of them are verified."""
        return self.result.answer is not None and 0 < self.verified == len(self.citations)

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
        result = self.result
        return {
            "method": self.method,
            "answer": result.answer,
            "stop_reason": result.stop_reason,
            "citations": [asdict(citation) for citation in self.citations],
            "verified": self.verified,
            "calls": self.calls,
            "input_tokens": self.input_tokens,
            "output_tokens": self.output_tokens,
            "cost_usd": self.cost_usd,
            "seconds": result.seconds,
            "coverage": result.to_json()["coverage"],
            "run_id": result.run_id,
            "note": self.note,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """The rows in the order of the request. `fits`: the whole input fits one prompt."""

    question: str
    chars: int
    fits: bool
    rows: tuple[MethodRow, ...]

    def to_json(self) -> dict[str, Any]:
        """Return a JSON-safe mapping."""
        return {
            "question": self.question,
            "input_chars": self.chars,
            "fits_one_prompt": self.fits,
            "rows": [row.to_json() for row in self.rows],
            "recommendation": self.advice,
        }

    @property
    def advice(self) -> str:
        """A recommendation by cost and verified quotes. The figures cannot tell which answer is right."""
        verified = [row for row in self.rows if row.is_verified]
        parts = [self._recommend(verified)]
        if len(verified) > 1 and _has_different_answers(verified):
            parts.append("The answers differ: read their citations before you choose.")
        return " ".join(parts)

    def _recommend(self, verified: Sequence[MethodRow]) -> str:
        if not verified:
            return "No method gave an answer with only verified quotes. Do not rely on these answers."
        cheapest = min(verified, key=_rate_price)
        name = _NAMES[cheapest.method]
        rlm = next((row for row in self.rows if row.method == "rlm"), None)
        if cheapest.method == "rlm":
            alone = len(verified) == 1 and len(self.rows) > 1
            why = (
                "it is the only method with only verified quotes"
                if alone
                else "no other method with verified quotes was cheaper"
            )
            return f"Use the RLM here: {why}."
        more = "" if rlm is None else _describe_rlm(rlm, cheapest)
        if self.fits and cheapest.method == "direct":
            return (
                f"You need no RLM for this: the input fits one call, and all its quotes are verified{more}."
            )
        seen = cheapest.result.coverage
        share = (
            f", but read only {100 * seen.answered_chars / self.chars:.1f} % of the input"
            if self.chars
            else ""
        )
        unread = "" if seen.complete else share
        return f"{name[0].upper()}{name[1:]} is the cheapest method with verified quotes{unread}{more}."


def _rate_price(row: MethodRow) -> tuple[float, int, int]:
    """Return a sort key: the cost, then the tokens, then the simplicity of the method. An unknown cost counts
    as 0. Time does not count, because it differs between runs of the same calls."""
    return row.cost_usd or 0.0, row.input_tokens + row.output_tokens, METHODS.index(row.method)


def _describe_rlm(rlm: MethodRow, other: MethodRow) -> str:
    """Return what the RLM cost compared with `other`, or that it has no verified answer."""
    if not rlm.is_verified:
        has_answer = rlm.result.answer is not None
        return "; the RLM's answer is not verified" if has_answer else "; the RLM gave no answer"
    for verb, of_rlm, of_other in (
        ("cost", rlm.cost_usd, other.cost_usd),
        ("used", rlm.input_tokens + rlm.output_tokens, other.input_tokens + other.output_tokens),
    ):
        if of_rlm and of_other:
            what = "as much" if verb == "cost" else "as many tokens"
            return f"; the RLM {verb} {of_rlm / of_other:.1f} times {what}"
    return ""


def _has_different_answers(rows: Sequence[MethodRow]) -> bool:
    words = [set(_WORD.findall(row.result.text.casefold())) for row in rows]
    return any(
        len(one & other) < _ALIKE * min(len(one), len(other))
        for place, one in enumerate(words)
        for other in words[:place]
    )


TOP_K = 8
_NO_WORDS = "no passage of the input contains a word of the question"
_SHRINK = 0.9
_MIN_CHARS = 1_000
"""A direct call is not tried with less of the input than this."""
_MAX_CHARS_PER_TOKEN = 8

_WEIGHTS: Mapping[Method, int] = MappingProxyType({"rlm": 3, "map-reduce": 3, "direct": 1, "bm25": 1})
"""How the remaining limits are divided between a method that begins and those that follow it."""


_Reply = tuple[DirectReply | None, str]
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

    async with open_job(rlm, "compare", task, sources_of(context), facts=facts) as (job, _):
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
            result = await parts.run_part(
                method, f"asking by {method}", limits, partial(_answer, method, task, top_k)
            )
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


async def _answer(method: Method, task: str, top_k: int, part: Part) -> RunResult:
    """Answer by a run of its own, or by one call, whose note becomes a warning."""
    if method in ("rlm", "map-reduce"):
        settings = replace(part.config.settings, strategy=method)
        return await replace(part, config=replace(part.config, settings=settings)).run(task)
    calls = SpanCalls.of(part, part.config.model, part.config.settings.direct)
    reply: DirectReply | None = None
    reason: StopReason = "finalized"
    try:
        reply, note = await (_direct(calls, task) if method == "direct" else _bm25(calls, task, top_k))
    except BudgetExhausted as error:
        reason, note = STOP_REASONS[error.limit], error.cause
    except ModelError as error:
        reason, note = "model", str(error)
    is_answer = reply is not None and reply.complete and bool(reply.text)
    if not is_answer:
        reason = reply.fault or reason if reply is not None else reason
        note = note or "the model replied that the text does not contain the answer"
    return calls.result(reply, is_answer=is_answer, reason=reason, note=note)


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


async def _direct(calls: SpanCalls, task: str) -> _Reply:
    """Make one call over the whole input, or over as much of its beginning as fits one prompt."""
    body = calls.body
    room = min(body.chars, max(_count_fitting_chars(calls.part.config, body), _MIN_CHARS))
    while True:
        try:
            spans = [Span(one.start, min(one.end, room)) for one in body.documents if one.start < room]
            reply = await calls.ask(Question(task, task), spans)
            break
        except (SliceTooLarge, BudgetExceeded):
            if room < _MIN_CHARS:
                return None, "the question leaves no room for the input in the prompt: ask a shorter question"
            room = int(room * _SHRINK)
    share = f"{100 * room / body.chars:.1f} %" if room < body.chars else ""
    return reply, share and f"the call read the first {share} of the input: more does not fit one prompt"


async def _bm25(calls: SpanCalls, task: str, top_k: int) -> _Reply:
    """Make one call over the passages that rank best for the question."""
    spans = await calls.best_passages(task, top_k)
    if not spans:
        return None, _NO_WORDS
    return await calls.ask(Question(task, task), spans), ""


def _count_fitting_chars(config: RunConfig, body: Body) -> int:
    """Estimate how many characters of the body's beginning fit one prompt of the root model."""
    room = room_of(config.model, config.settings.direct)
    if room <= 0:
        return 0
    text = body.text(0, min(body.chars, room * _MAX_CHARS_PER_TOKEN))
    tokens = estimate(text)
    return len(text) if tokens <= room else int(len(text) * room / tokens)
