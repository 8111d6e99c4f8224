"""Research: a tree of questions, a run for each, and a report of what the documents say, with its sources."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from pathlib import Path
from typing import Any

from rlm.accounting.run_plan import RunPlan
from rlm.citation_markers import sourced
from rlm.documents import Source
from rlm.errors import BudgetExhausted, ModelError, UsageError, cause_of
from rlm.models.base import is_extractive
from rlm.prompts import NOT_FOUND
from rlm.prompts.templates import table as words_table
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.sandbox.in_kernel.body.body import Body
from rlm.tasks.jobs.job import Job, open_job, resume_job
from rlm.tasks.jobs.parts import Parts
from rlm.tasks.question import answered
from rlm.tasks.reports.conflicts import Conflict, read_conflicts, seen_conflicts
from rlm.tasks.reports.evidence_table import EvidenceTable, Finding, passages
from rlm.tasks.reports.evidence_table import Source as Passage
from rlm.tasks.reports.questions import Plan, Question, from_markdown, from_task
from rlm.tasks.reports.report import findings_text, report
from rlm.tasks.summaries.github import with_chats

__all__ = ["Research", "foretell_research", "plan_research", "research", "resume_research"]

_MAX_QUESTIONS = 8
_AT_ONCE = 3
_SHARE = 0.9
"""Of the limits, what goes to the questions: the rest is for planning and for the report."""
_PLAN_TOKENS = 2_000
_REPORT_WORDS = 250
_NAMED_DOCUMENTS = 30
_HEADINGS_SHOWN = 12


@dataclass(frozen=True, slots=True)
class Research:
    """What came of it. `result` is the job's: its answer is the report, its citations are the numbered
    sources, its usage that of all runs, its coverage the least that these had together. `gaps` are questions
    without a verified answer, and why. The question 2.1 is the part `q2.1` of the run."""

    plan: Plan
    report: str
    result: RunResult
    findings: tuple[Finding, ...]
    sources: tuple[Passage, ...]
    conflicts: tuple[Conflict, ...]
    gaps: tuple[tuple[Question, str], ...]

    def to_json(self) -> dict[str, Any]:
        """A JSON-safe mapping: the result's, with plan, findings, conflicts and gaps beside it."""
        return {
            "plan": self.plan.markdown(),
            "report": self.report,
            "findings": [
                {
                    "question": one.question.number,
                    "text": one.text,
                    "sources": one.sources,
                    "same_as": one.same_as,
                }
                for one in self.findings
            ],
            "conflicts": [asdict(one) for one in self.conflicts],
            "gaps": [{"question": one.number, "text": one.text, "why": why} for one, why in self.gaps],
            **self.result.to_json(),
        }


async def plan_research(
    rlm: RLM, task: str, context: Sequence[str | Path | Source], *, most: int = _MAX_QUESTIONS
) -> Plan:
    """The questions that `task` comes to, at most `most`: one call of the model, none without one. Raises
    UsageError and ModelError."""
    async with open_job(rlm, "plan", task, with_chats(context), facts=_facts(task, None, most)) as (job, _):
        plan = await _planned(job, task, most)
        await job.finish(plan.markdown())
        return plan


async def foretell_research(
    rlm: RLM,
    task: str,
    context: Sequence[str | Path | Source],
    *,
    plan: Plan | None = None,
    most: int = _MAX_QUESTIONS,
) -> RunPlan:
    """What a research would about take, if each question needs the whole input once. Where a model would make
    the plan, `most` questions are reckoned with. Asks no model. Raises UsageError."""
    planned = plan or (from_task(task, most) if is_extractive(rlm.model) else None)
    each = await rlm.plan(with_chats(context))
    return reduce(RunPlan.plus, [each] * (len(planned.leaves) if planned else most))


async def research(
    rlm: RLM,
    task: str,
    context: Sequence[str | Path | Source],
    *,
    plan: Plan | None = None,
    most: int = _MAX_QUESTIONS,
) -> Research:
    """Answer every question of the plan (made for `task` unless one is given) over `context`, and report.

    The limits of `rlm` hold over all of it: each question has an equal share, and is a part of the one run
    that the journal has of it. A question that fails is a gap in the report, never its end. Raises UsageError
    and JournalError, SandboxRefused before anything is spent on a question.
    """
    sources = with_chats(context)
    async with open_job(rlm, "research", task, sources, facts=_facts(task, plan, most)) as (job, _):
        return await _researched(job, task, plan, most)


async def resume_research(rlm: RLM, run: str) -> Research:
    """Go on with a research that was left, by its run's name or the start of it: what was asked is not asked
    again, what was answered is not paid again, and its limits hold. One that has ended is given as it was.
    Raises JournalError and UsageError."""
    async with resume_job(rlm, "research", run) as (job, left):
        given = left.facts["plan"]
        return await _researched(
            job, left.task, None if given is None else Plan.from_json(given), left.facts["most"]
        )


async def _researched(job: Job, task: str, given: Plan | None, most: int) -> Research:
    plan = given or await _planned(job, task, most)
    results = await _answers(job, plan)
    table, gaps = _gathered(job, plan, results)
    conflicts = await _conflicts(job, table)
    summary = await _summary(job, plan, table, gaps)
    text = report(plan, summary, table, conflicts, gaps)
    done = [one for one in results.values() if isinstance(one, RunResult)]
    cited = [replace(one.citation, marker=f"[{one.number}]") for one in table.sources]
    if not table.sources and all(one.stop_reason == "model" for one in done):
        job.stop_reason = "model"
    result = await job.finish(text, cited, parts=done)
    return Research(
        plan,
        text,
        result,
        tuple(table.findings),
        tuple(table.sources),
        tuple(conflicts),
        tuple(gaps),
    )


def _facts(task: str, plan: Plan | None, most: int) -> Callable[[Body], Mapping[str, Any]]:
    """What the journal keeps of a research beside the usual. Raises UsageError for what can't be one."""
    if not task.strip():
        raise UsageError("the task is empty: say what is to be found out")

    def facts(body: Body) -> Mapping[str, Any]:
        if not body.text(0, 1_000_000).strip():
            raise UsageError("there is nothing to research: the input holds no text")
        return {"plan": None if plan is None else asdict(plan), "most": most}

    return facts


async def _planned(job: Job, task: str, most: int) -> Plan:
    """By the root model, from the task and what the documents are. Without one the task is taken apart."""
    model = job.config.model
    if is_extractive(model):
        return from_task(task, most)
    ask = words_table("tasks.toml")["plan"].strip()
    prompt = ask.format(task=task, most=most, documents=_documents(job.body))
    reply = await job.ask(model, prompt, _PLAN_TOKENS)
    try:
        plan = from_markdown(reply, task)
    except UsageError as error:
        job.warn(f"the model's plan could not be used ({error}): the task was taken apart without it")
        return from_task(task, most)
    if len(plan.leaves) > most:
        job.warn(f"the model planned {len(plan.leaves)} questions: the first {most} are asked")
        return Plan(task, tuple(Question(str(n), one.text) for n, one in enumerate(plan.leaves[:most], 1)))
    return plan


def _documents(body: Body) -> str:
    """What the documents are called, how long they are, and their first headings."""
    lines = []
    for document in body.documents[:_NAMED_DOCUMENTS]:
        rows = list(body.marks.headings.between(document.start, document.end))[:_HEADINGS_SHOWN]
        titles = "; ".join(" ".join(body.text(*body.marks.title(row)).split()) for row in rows)
        size = f"{document.end - document.start:,} characters"
        lines.append(f"- {document.name} ({size})" + (f": {titles}" if titles else ""))
    if len(body.documents) > _NAMED_DOCUMENTS:
        lines.append(f"- … and {len(body.documents) - _NAMED_DOCUMENTS:,} more")
    return "\n".join(lines)


async def _answers(job: Job, plan: Plan) -> dict[str, RunResult | str]:
    """Each question's result by its number, or why there is none."""
    leaves = plan.leaves
    limits = job.config.limits
    share = _SHARE / len(leaves)
    at_once = min(_AT_ONCE, len(leaves))
    each = replace(
        limits,
        sub_calls=max(1, int(limits.sub_calls * share)),
        tokens=max(1, int(limits.tokens * share)),
        cost_usd=limits.cost_usd * share,
        seconds=limits.seconds * min(1.0, share * at_once),
    )
    wording = words_table("tasks.toml")["question"].strip()
    room = asyncio.Semaphore(at_once)

    async def one(parts: Parts, question: Question) -> RunResult | str:
        asked = question.text
        if not is_extractive(job.config.model):
            asked = wording.format(question=question.text, task=plan.task, not_found=NOT_FOUND)
        async with room:
            return await parts.run_part(
                f"q{question.number}", question.text, each, lambda part: part.run(asked)
            )

    async with job.parts(len(leaves), at_once=at_once) as parts:
        tasks = [asyncio.ensure_future(one(parts, leaf)) for leaf in leaves]
        try:
            found = await asyncio.gather(*tasks)
        finally:
            for task in tasks:
                task.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    return {leaf.number: result for leaf, result in zip(leaves, found, strict=True)}


def _gathered(
    job: Job, plan: Plan, results: Mapping[str, RunResult | str]
) -> tuple[EvidenceTable, list[tuple[Question, str]]]:
    """The evidence table, and the questions that have no verified answer."""
    table = EvidenceTable()
    gaps: list[tuple[Question, str]] = []
    for leaf in plan.leaves:
        result = results[leaf.number]
        if isinstance(result, str):
            gaps.append((leaf, f"its run failed: {result}"))
            continue
        for warning in result.warnings:
            if not any(told.endswith(warning) for told in job.warnings):
                job.warn(f"question {leaf.number}: {warning}")
        if result.answer is None:
            why = result.warnings[-1] if result.warnings else result.stop_reason
            gaps.append((leaf, f"its run ended without an answer: {why}"))
            continue
        answer = answered(leaf.text, result)
        if not answer.found:
            gaps.append((leaf, "not in the documents"))
        elif not table.add(leaf, answer):
            gaps.append((leaf, "no verified passage stands behind the answer"))
    if table.unverified:
        job.warn(f"{table.unverified:,} pieces of evidence do not stand in the input and were left out")
    return table, gaps


async def _conflicts(job: Job, table: EvidenceTable) -> list[Conflict]:
    """What a model names among the passages; what can be seen without one, when there is none or it fails."""
    if len(table.sources) < 2:
        return []
    model = job.config.summary_model
    if not is_extractive(model):
        ask = words_table("tasks.toml")["conflicts"].strip()
        try:
            reply = await job.ask(model, ask.format(passages=passages(table.sources)), _PLAN_TOKENS)
            return read_conflicts(reply, len(table.sources))
        except (ModelError, BudgetExhausted, ValueError) as error:
            job.warn(f"contradictions were looked for without a model: {cause_of(error)}")
    return seen_conflicts(table.sources)


async def _summary(job: Job, plan: Plan, table: EvidenceTable, gaps: Sequence[tuple[Question, str]]) -> str:
    """The answer to the task in prose. Sentences that name no source that there is are left out."""
    model = job.config.summary_model
    if is_extractive(model) or not table.findings:
        return ""
    ask = words_table("tasks.toml")["report"].strip()
    prompt = ask.format(words=_REPORT_WORDS, task=plan.task, findings=findings_text(plan, table, gaps))
    try:
        reply = await job.ask(model, prompt, 4 * _REPORT_WORDS)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"the report has no summary: {cause_of(error)}")
        return ""
    return " ".join(sourced(reply, len(table.sources)))
