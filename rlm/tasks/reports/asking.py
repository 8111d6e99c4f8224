"""Ask the questions of a plan: independent ones at the same time, others after those whose answers they
need. Tell what each took.
"""

from __future__ import annotations

import asyncio
import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Literal

from rlm.escaping import json_text
from rlm.models.base import is_extractive
from rlm.prompts import states_absence
from rlm.prompts.templates import table
from rlm.results import RunResult
from rlm.settings import Limits
from rlm.tasks.jobs.job import Job
from rlm.tasks.jobs.parts import Part, Parts
from rlm.tasks.reports.evidence import is_sourced
from rlm.tasks.reports.look_up import look_up, may_look_up
from rlm.tasks.reports.plan import Plan, Question

__all__ = [
    "Asked",
    "NotAsked",
    "Outcome",
    "QuestionAccount",
    "account_of",
    "ask_questions",
    "describe_absence",
]

_AT_ONCE = 3
_SHARE = 0.9
"""The share of the limits for the questions. The rest is for the plan and the report."""
_ANSWER_CHARS = 600
_SHOWN_SOURCES = 3
_TASK_CHARS = 300
"""A longer task is not repeated to each question."""


@dataclass(frozen=True, slots=True)
class NotAsked:
    """Why a question was not asked: it needs an answer that was not found."""

    reason: str


Outcome = RunResult | NotAsked | str
"""A question's result, or why it was not asked, or why its run failed."""


@dataclass(frozen=True, slots=True)
class Asked:
    """The outcome of each question without parts, by its number, and the documents that its run did not
    read."""

    outcomes: Mapping[str, Outcome]
    unread: Mapping[str, Sequence[str]]


async def ask_questions(job: Job, plan: Plan) -> Asked:
    """Ask the questions without parts.

    A question that refers to others runs after them, with their answers and sources put in. If one of them
    was not found, it is not asked, and nothing is paid for it.
    """
    leaves = plan.leaves
    at_once = min(_AT_ONCE, len(leaves))
    each = _limits(job.config.limits, plan, at_once)
    room = asyncio.Semaphore(at_once)
    asking: dict[str, asyncio.Task[Outcome]] = {}

    async def ask(parts: Parts, leaf: Question) -> Outcome:
        needed = plan.needs(leaf)
        results = dict(zip(needed, await asyncio.gather(*(asking[one] for one in needed)), strict=True))
        known = []
        for question in leaves:
            result = results.get(question.number)
            if result is None:
                continue
            if not isinstance(result, RunResult) or not result.found or not is_sourced(result):
                return NotAsked(_reason(question, result))
            known.append(_earlier(question, result))
        async with room:
            return await parts.run_part(
                f"q{leaf.number}", leaf.text, each, lambda part: _answer(part, plan, leaf, known)
            )

    async with job.parts(len(leaves), at_once=at_once) as parts:
        for leaf in leaves:
            asking[leaf.number] = asyncio.ensure_future(ask(parts, leaf))
        try:
            results = await asyncio.gather(*asking.values())
        finally:
            for task in asking.values():
                task.cancel()
            await asyncio.gather(*asking.values(), return_exceptions=True)
        unread = {leaf.number: parts.unread_documents(f"q{leaf.number}") for leaf in leaves}
    return Asked({leaf.number: result for leaf, result in zip(leaves, results, strict=True)}, unread)


async def _answer(part: Part, plan: Plan, leaf: Question, known: Sequence[str]) -> RunResult:
    """Answer one question from its best passages, or else by a run of its own."""
    if is_extractive(part.config.model):
        return await part.run("\n".join([leaf.text, *known]), checks_support=False)
    words = table("tasks.toml")
    found_before = "\n".join([words["research"]["earlier_title"], *known]) if known else ""
    if leaf.is_fact and may_look_up(part):
        found = await look_up(part, leaf.text, found_before)
        if found is not None:
            return found
    within = ""
    if len(plan.leaves) > 1 and len(plan.task) <= _TASK_CHARS and leaf.text not in plan.task:
        within = words["research"]["within"].format(task=plan.task)
    question = f"{leaf.text}\n\n{found_before}" if found_before else leaf.text
    in_rounds = part.config.first_strategy(part.part_resources.source.body) == "rlm"
    steps = words["research"]["steps"] if in_rounds and leaf.is_fact else ""
    length = words["research"]["few" if leaf.is_fact else "all"]
    task = words["question"].strip().format(question=question, within=within, steps=steps, length=length)
    return await part.run(task, checks_support=False)


def _limits(limits: Limits, plan: Plan, at_once: int) -> Limits:
    """Return an equal share of the limits. Questions that wait for others have less time each."""
    count = len(plan.leaves)
    share = _SHARE / count
    depth: dict[str, int] = {}
    for leaf in plan.leaves:
        depth[leaf.number] = 1 + max((depth[one] for one in plan.needs(leaf)), default=0)
    turns = max(math.ceil(count / at_once), *depth.values())
    return replace(
        limits,
        max_calls=max(1, int(limits.max_calls * share)),
        max_total_tokens=max(1, int(limits.max_total_tokens * share)),
        max_cost=limits.max_cost * share,
        max_seconds=limits.max_seconds * _SHARE / turns,
    )


def _reason(needed: Question, result: Outcome) -> str:
    if isinstance(result, NotAsked):
        why = "was not asked"
    elif isinstance(result, str):
        why = "failed"
    elif result.answer is None:
        why = "ended without an answer"
    elif not result.found:
        why = "was not found in the documents"
    else:
        why = "has no verified source"
    return f"not asked: it needs the answer to {needed.number}, which {why}"


def _earlier(question: Question, result: RunResult) -> str:
    """Return an answer with its sources, for the question that needs it. All of it is quoted: it is foreign
    text."""
    cited = [one for one in result.citations if one.verified][:_SHOWN_SOURCES]
    sources = "; ".join(f"{json_text(one.place)}: {json_text(one.shown)}" for one in cited)
    answer = result.text if len(result.text) <= _ANSWER_CHARS else f"{result.text[:_ANSWER_CHARS]}…"
    words: str = table("tasks.toml")["research"]["earlier"]
    return words.format(
        number=question.number, question=json_text(question.text), answer=json_text(answer), sources=sources
    )


_SHOWN_FILES = 8
_STATEMENT_CHARS = 400

Way = Literal["passages", "direct", "map-reduce", "rounds", "not asked", "failed"]


@dataclass(frozen=True, slots=True)
class QuestionAccount:
    """What a question took. `how` it was answered: from its best passages, by one call over the whole text,
    part by part (map-reduce), or in rounds. `calls` are all model calls, those of children included.
    `cost_usd` is None if a price is unknown."""

    number: str
    text: str
    how: Way
    found: bool
    calls: int = 0
    rounds: int = 0
    tokens: int = 0
    cost_usd: float | None = 0.0
    seconds: float = 0.0


def account_of(question: Question, outcome: Outcome, gaps: Sequence[tuple[Question, str]]) -> QuestionAccount:
    """Return the account of a question. `gaps` are the questions without a verified answer."""
    if isinstance(outcome, NotAsked):
        return QuestionAccount(question.number, question.text, "not asked", False)
    if isinstance(outcome, str):
        return QuestionAccount(question.number, question.text, "failed", False)
    how: Way = "direct" if outcome.coverage.complete else "passages"
    if outcome.strategy == "map-reduce" or outcome.rounds:
        how = "map-reduce" if outcome.strategy == "map-reduce" else "rounds"
    return QuestionAccount(
        question.number,
        question.text,
        how,
        all(gap.number != question.number for gap, _ in gaps),
        sum(one.calls for one in outcome.usage),
        outcome.rounds,
        sum(one.input_tokens + one.output_tokens for one in outcome.usage),
        outcome.cost_usd,
        outcome.seconds,
    )


def describe_absence(result: RunResult, unread: Sequence[str], documents: int) -> str:
    """Return why a question has no answer: what its run says of it, and what of the input it did not read.
    `unread` are the documents of which it read nothing, of `documents` in all."""
    said = " ".join(result.text.split())
    if result.stop_reason == "nearest":
        said = "no passage with these words was found"
    elif not states_absence(said):
        said = "not in the documents"
    elif len(said) > _STATEMENT_CHARS:
        said = said[:_STATEMENT_CHARS].rsplit(" ", 1)[0] + " …"
    said = said[0].lower() + said[1:].rstrip(".")
    if result.coverage.complete or not result.coverage.input_chars:
        return said
    if documents > 1 and len(unread) == documents:
        return f"{said}; the text was searched, and none of its {documents:,} files was read"
    if unread and documents > 1:
        names = ", ".join(unread[:_SHOWN_FILES])
        more = f" and {len(unread) - _SHOWN_FILES:,} more" if len(unread) > _SHOWN_FILES else ""
        return f"{said}; {len(unread):,} of {documents:,} files were not read: {names}{more}"
    read = 1 - result.coverage.uncovered_chars / result.coverage.input_chars
    return f"{said}; {read:.0%} of the text was read"
