"""One question answered in several ways over the same input: is an RLM needed for it at all?

Each way is asked with the same models under the same limits, and its quotes are checked in the same way. All
are kept in the journal: they were paid for.
"""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Awaitable, Callable, Sequence
from copy import copy
from dataclasses import dataclass, replace
from functools import reduce
from typing import Any, Literal

from prompts import BudgetExceeded, SliceTooLarge
from rlm.accounts import Accounts
from rlm.budget import STOP_REASONS, Budget
from rlm.calls import Caller, estimate
from rlm.coverage import CoverageLedger
from rlm.direct import DirectReply, DirectSettings, Question, ask_directly
from rlm.documents import Source, StreamSource, TextSource
from rlm.engine import Engine
from rlm.errors import BudgetExhausted, ModelError, UsageError
from rlm.events import Event
from rlm.ground import secrets_of
from rlm.journal import Journal, RunLog, default_store, new_run_id
from rlm.models.base import SliceText
from rlm.plan import RunPlan
from rlm.playback import Playback
from rlm.retrieval import Retriever
from rlm.runtime import RLM
from rlm.subcalls import SubCalls
from rlm.tasks.comparison import METHODS, Comparison, Method, MethodRow
from rlm.tree import Tree
from rlm.types import RunResult, StopReason
from rlm.workspace import Workspace
from sandbox.in_kernel.body import Body
from sandbox.requests import BadCall
from sandbox.types import ChildAnswer, ChildBatch, ChildSlice, Span

__all__ = ["compare", "plan_comparison"]

TOP_K = 8
_NO_WORDS = "no passage of the input holds a word of the question"
_SHRINK = 0.9

Told = Callable[[Method], None]
"""Is told of each method when it begins."""


@dataclass(frozen=True, slots=True)
class _Way:
    """What one method works with: one set of books, for it alone."""

    engine: Engine
    task: str
    body: Body
    accounts: Accounts
    settings: DirectSettings

    async def ask(self, pieces: Sequence[SliceText]) -> DirectReply:
        return await ask_directly(
            self.engine.model,
            Question(self.task, self.task),
            pieces,
            self.body,
            accounts=self.accounts,
            settings=self.settings,
        )

    def piece(self, span: Span) -> SliceText:
        document = self.body.document_at(span.start)
        return SliceText(self.body.text(*span), span, document.name if document else None)


_Asked = tuple[DirectReply | None, str]
"""A reply, or None where there was nothing to ask about; and a note."""


async def plan_comparison(
    rlm: RLM, context: Sequence[Source], methods: Sequence[Method] = METHODS
) -> RunPlan:
    """What the methods would about take together. Asks no model. Raises UsageError."""
    plans = []
    kept = _readable_again(context)
    for method in methods:
        as_if = copy(rlm)
        strategy: Literal["rlm", "direct"] = "direct" if method in ("direct", "bm25") else "rlm"
        as_if.settings = replace(rlm.settings, strategy=strategy)
        plans.append(await as_if.plan(kept))
    return reduce(RunPlan.plus, plans)


async def compare(
    rlm: RLM,
    task: str,
    context: Sequence[Source],
    *,
    methods: Sequence[Method] = METHODS,
    top_k: int = TOP_K,
    told: Told = lambda _: None,
) -> Comparison:
    """Answer `task` over `context` by every one of `methods`, one after another. A method that fails or runs
    into a limit is a row that says so. Raises UsageError, SandboxRefused and JournalError like `RLM.run`."""
    if not task.strip():
        raise UsageError("the question is empty: say what is to be answered")
    with Workspace() as workspace:
        sources = await asyncio.to_thread(_readable_again, context)
        loaded = await workspace.load(sources)
        with loaded.context.open() as body:
            fits = _fitting(rlm, body) == body.chars
            rows: dict[Method, MethodRow] = {}
            async with Journal.open(rlm.settings.store or default_store(os.environ)) as journal:
                journal.redact(secrets_of(os.environ))
                # The RLM first: where the sandbox is refused nothing is spent.
                for method in sorted(methods, key=lambda one: one != "rlm"):
                    told(method)
                    if method == "rlm":
                        rows[method] = await _by_rlm(rlm, task, sources)
                        continue
                    work = _works(method, top_k)
                    rows[method] = await _by(method, work, rlm, task, body, journal)
    models = {rlm.model.name, rlm.sub_model.name} != {"extractive"}
    return Comparison(task, body.chars, fits, models, tuple(rows[method] for method in methods))


def _works(method: Method, top_k: int) -> Callable[[_Way], Awaitable[_Asked]]:
    if method == "direct":
        return _direct
    if method == "map-reduce":
        return _map_reduce
    return lambda way: _bm25(way, top_k)


async def _by_rlm(rlm: RLM, task: str, sources: Sequence[Source]) -> MethodRow:
    recursive = copy(rlm)
    recursive.settings = replace(rlm.settings, strategy="rlm")
    result = await recursive.run(task, list(sources))
    return MethodRow("rlm", result, result.warnings[-1] if result.answer is None and result.warnings else "")


async def _by(
    method: Method,
    work: Callable[[_Way], Awaitable[_Asked]],
    rlm: RLM,
    task: str,
    body: Body,
    journal: Journal,
) -> MethodRow:
    """A row of what `work` comes to, in books of its own."""
    engine = Engine(rlm.model, rlm.sub_model, rlm.summary_model, rlm.limits, rlm.settings, _unheard)
    facts = {
        **engine.facts(),
        "compared": method,
        "context_sha256": body.sha256,
        "context_chars": body.chars,
        "documents": len(body.documents),
        "warnings": [],
    }
    run_id, began = new_run_id(), time.monotonic()
    async with journal.run(run_id, task, facts) as log:
        budget, playback, tree = Budget(rlm.limits), Playback(), Tree(rlm.limits.concurrency)
        caller = Caller(budget, log, playback, _unheard, engine.prices)
        coverage = CoverageLedger(body.chars)
        accounts = Accounts(budget, caller, coverage, log, playback, tree, _unheard)
        way = _Way(engine, task, body, accounts, rlm.settings.direct)
        reply: DirectReply | None = None
        reason: StopReason = "finalized"
        try:
            reply, note = await work(way)
        except BudgetExhausted as error:
            reason, note = STOP_REASONS[error.limit], str(error)
        except ModelError as error:
            reason, note = "model", str(error)
        except BadCall as error:
            reason, note = "sub_calls", str(error)
        answer = reply.text if reply is not None and reply.complete and reply.text else None
        if answer is None and not note:
            note = "it says that the text does not hold the answer"
        result = RunResult(
            run_id=run_id,
            answer=answer,
            confidence=None,
            stop_reason=reason,
            forced=False,
            strategy="direct",
            citations=() if reply is None else reply.citations,
            coverage=coverage.report(),
            usage=caller.usage(),
            rounds=0,
            sub_calls=int(budget.used()["sub_calls"]["used"]),
            seconds=round(time.monotonic() - began, 3),
            warnings=(note,) if note else (),
        )
        await _finish(log, result, caller.cost_usd)
    return MethodRow(method, result, note)


async def _direct(way: _Way) -> _Asked:
    """One call over the whole, or over as much of its beginning as one prompt holds."""
    body = way.body
    room = min(body.chars, _fitting_chars(way.engine.model.window.context, way.settings, body))
    while True:
        try:
            spans = [Span(one.start, min(one.end, room)) for one in body.documents if one.start < room]
            reply = await way.ask([way.piece(span) for span in spans])
            break
        except (SliceTooLarge, BudgetExceeded):
            if room < 1_000:
                raise UsageError("the question leaves no room for the input: ask a shorter one") from None
            room = int(room * _SHRINK)
    if reply.complete:
        way.accounts.coverage.note_answered([Span(0, room)])
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
        way.accounts.coverage.note_answered(spans)
    return reply, ""


async def _map_reduce(way: _Way) -> _Asked:
    """A child for every part of the input, then one call over what they found."""
    engine = way.engine
    settings = replace(engine.settings.child, concurrency=engine.limits.concurrency)
    children = SubCalls(engine.sub_model, way.body, accounts=way.accounts, settings=settings)
    size = int(children.plan()["recommended_chunk"] or 1)
    spans = [
        Span(start, min(start + size, one.end))
        for one in way.body.documents
        for start in range(one.start, one.end, size)
    ]
    answers: dict[int, ChildAnswer] = {}

    async def take(position: int, answer: ChildAnswer) -> None:
        answers[position] = answer

    batch = ChildBatch((way.task,) * len(spans), tuple(ChildSlice((span,)) for span in spans), chunked=True)
    await children.serve(batch, take)
    failed = sum(answer.error is not None for answer in answers.values())
    found = [
        SliceText(answer.text, None, f"part {position + 1} of {len(spans)}")
        for position, answer in sorted(answers.items())
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


def _fitting(rlm: RLM, body: Body) -> int:
    """Characters of the body's beginning that one prompt of the model holds, by the estimate."""
    return min(body.chars, _fitting_chars(rlm.model.window.context, rlm.settings.direct, body))


def _fitting_chars(window: int, settings: DirectSettings, body: Body) -> int:
    room = window - settings.output_tokens - 1_500
    most = body.text(0, min(body.chars, room * 8))
    tokens = estimate(most)
    return len(most) if tokens <= room else int(len(most) * room / tokens)


def _readable_again(context: Sequence[Source]) -> list[Source]:
    """The sources, streams read into memory: every method needs them."""
    return [
        TextSource(source.name, source.stream.read()) if isinstance(source, StreamSource) else source
        for source in context
    ]


async def _finish(log: RunLog, result: RunResult, cost_usd: float | None) -> None:
    data: dict[str, Any] = {**result.to_json(), "cost_usd": cost_usd}
    await log.append("finished", data)


def _unheard(_: Event) -> None:
    """Only whole methods are told of."""
