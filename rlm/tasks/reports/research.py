"""Research: a run for each question of a plan, and a report of the findings with their sources."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, replace
from functools import reduce
from typing import Any

from rlm.accounting.run_plan import RunPlan
from rlm.citation_markers import marks_of, unknown_marks
from rlm.documents import Context, sources_of
from rlm.errors import BudgetExhausted, ModelError, UsageError, cause_of
from rlm.models.base import is_extractive
from rlm.prompts.templates import table as words_table
from rlm.results import RunResult
from rlm.runs.opening import check_question
from rlm.runtime import RLM
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job, open_job, open_stored_job
from rlm.tasks.reports.asking import (
    Asked,
    NotAsked,
    QuestionAccount,
    account_of,
    ask_questions,
    describe_absence,
)
from rlm.tasks.reports.evidence import (
    Conflict,
    EvidenceTable,
    Finding,
    check_findings,
    check_summary,
    join_support,
    passages,
    read_conflicts,
    statement_of,
)
from rlm.tasks.reports.evidence import Source as Passage
from rlm.tasks.reports.plan import Plan, Question, from_task, is_the_task, make_plan
from rlm.tasks.reports.report import findings_text, report

__all__ = ["Research", "estimate_research", "plan_research", "research", "resume_research"]

_MAX_QUESTIONS = 8
_CONFLICT_TOKENS = 2_000
_REPORT_WORDS = 250


@dataclass(frozen=True, slots=True)
class Research:
    """The outcome of a research.

    `result` is the job's result: its answer is the report, its citations are the numbered sources, and its
    usage is that of all runs. `gaps` are the questions without a verified answer, each with the reason.
    `questions` tell what each question took. In the journal, question 2.1 is the part `q2.1` of the run.
    """

    plan: Plan
    report: str
    result: RunResult
    findings: tuple[Finding, ...]
    sources: tuple[Passage, ...]
    conflicts: tuple[Conflict, ...]
    gaps: tuple[tuple[Question, str], ...]
    questions: tuple[QuestionAccount, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Return the result's JSON with plan, report, findings, conflicts, gaps and questions."""
        return {
            "plan": self.plan.markdown(),
            "report": self.report,
            "findings": [
                {
                    "question": one.question.number,
                    "text": one.text,
                    "sources": one.sources,
                    "supported": one.supported,
                }
                for one in self.findings
            ],
            "conflicts": [asdict(one) for one in self.conflicts],
            "gaps": [{"question": one.number, "text": one.text, "why": why} for one, why in self.gaps],
            "questions": [asdict(one) for one in self.questions],
            **self.result.to_json(),
        }


async def plan_research(rlm: RLM, task: str, context: Context, *, most: int = _MAX_QUESTIONS) -> Plan:
    """Plan the questions for `task`, at most `most`. Calls the model once; without a model it splits the
    task. Raises UsageError and ModelError."""
    async with open_job(rlm, "plan", task, sources_of(context), facts=_facts(task, None, most)) as (job, _):
        plan = await make_plan(job, task, most)
        await job.finish(plan.markdown())
        return plan


async def estimate_research(
    rlm: RLM,
    task: str,
    context: Context,
    *,
    plan: Plan | None = None,
    most: int = _MAX_QUESTIONS,
) -> RunPlan:
    """Estimate what a research needs, if each question reads the whole input once. Assumes `most` questions
    if a model would make the plan. Asks no model. Raises UsageError."""
    own_plan = plan or (from_task(task, most) if is_extractive(rlm.model) else None)
    each = await rlm.plan(sources_of(context))
    return reduce(RunPlan.plus, [each] * (len(own_plan.leaves) if own_plan else most))


async def research(
    rlm: RLM,
    task: str,
    context: Context,
    *,
    plan: Plan | None = None,
    most: int = _MAX_QUESTIONS,
) -> Research:
    """Answer every question of the plan over `context`, and report. Without `plan`, one is made for `task`.

    The limits of `rlm` apply to the whole research, and each question gets an equal share. The journal stores
    it as one run with a part for each question. A question that fails is a gap in the report. Raises
    UsageError and JournalError, and SandboxRefused before anything is spent on a question.
    """
    sources = sources_of(context)
    async with open_job(rlm, "research", task, sources, facts=_facts(task, plan, most)) as (job, _):
        return await _run_research(job, task, plan, most)


async def resume_research(rlm: RLM, run: str, context: Context = ()) -> Research:
    """Resume a research by its run's name or a unique start of it.

    Journalled calls are not made again, and its limits still apply. `context` is its input again, for a
    journal that did not keep it. A research that has ended is returned unchanged. Raises JournalError and
    UsageError.
    """
    async with open_stored_job(rlm, "research", run, sources_of(context)) as (job, left):
        given = left.facts["plan"]
        return await _run_research(
            job, left.task, None if given is None else Plan.from_json(given), left.facts["most"]
        )


async def _run_research(job: Job, task: str, given: Plan | None, most: int) -> Research:
    plan = given or await make_plan(job, task, most)
    asked = await ask_questions(job, plan)
    results = asked.outcomes
    table, gaps = _collect_evidence(job, plan, asked)
    in_rounds = {number for number, one in results.items() if isinstance(one, RunResult) and one.rounds}
    # Extracts are the words of their sources: there is nothing to check.
    has_model = not is_extractive(job.config.model)
    support = await check_findings(job, table, in_rounds) if has_model else None
    conflicts = await _find_conflicts(job, table)
    summary = await _summarize(job, plan, table, gaps)
    if summary and support is not None:
        summary, of_summary = await check_summary(job, summary, table)
        support = join_support(support, of_summary)
    text = report(plan, summary, table, conflicts, gaps)
    done = [one for one in results.values() if isinstance(one, RunResult)]
    cited = [replace(one.citation, marker=f"[{one.number}]") for one in table.sources]
    if not table.sources and all(one.stop_reason == "model" for one in done):
        job.stop_reason = "model"
    result = await job.finish(text, cited, parts=done, support=support)
    return Research(
        plan,
        result.answer,
        result,
        tuple(table.findings),
        tuple(table.sources),
        tuple(conflicts),
        tuple(gaps),
        tuple(account_of(leaf, results[leaf.number], gaps) for leaf in plan.leaves),
    )


def _facts(task: str, plan: Plan | None, most: int) -> Callable[[Body], Mapping[str, Any]]:
    """Return a function for the facts that the journal stores with a research. Raises UsageError for an empty
    task; the function raises it for an empty input."""
    check_question(task)

    def facts(body: Body) -> Mapping[str, Any]:
        if not body.text(0, 1_000_000).strip():
            raise UsageError("there is nothing to research: the input has no text")
        return {"plan": None if plan is None else asdict(plan), "most": most}

    return facts


def _collect_evidence(job: Job, plan: Plan, asked: Asked) -> tuple[EvidenceTable, list[tuple[Question, str]]]:
    """Return the evidence table, and the questions without a verified answer, each with the reason."""
    table = EvidenceTable()
    gaps: list[tuple[Question, str]] = []
    for leaf in plan.leaves:
        result = asked.outcomes[leaf.number]
        if isinstance(result, NotAsked):
            gaps.append((leaf, result.reason))
            continue
        if isinstance(result, str):
            gaps.append((leaf, f"its run failed: {result}"))
            continue
        for warning in result.warnings:
            if not any(earlier.endswith(warning) for earlier in job.warnings):
                job.warn(f"question {leaf.number}: {warning}")
        if result.answer is None:
            why = result.warnings[-1] if result.warnings else result.stop_reason
            gaps.append((leaf, f"its run ended without an answer: {why}"))
            continue
        if not result.found:
            gaps.append((leaf, describe_absence(result, asked.unread[leaf.number], len(job.body.documents))))
        elif not table.add(leaf, result):
            gaps.append((leaf, "no verified passage stands behind the answer"))
    if table.unverified:
        job.warn(f"{table.unverified:,} citations are not in the input; the report marks them [?]")
    return table, gaps


async def _find_conflicts(job: Job, table: EvidenceTable) -> list[Conflict]:
    """Let a model list conflicts between the passages, in whole sentences. Without a model there is none."""
    model = job.config.summary_model
    if is_extractive(job.config.model) or is_extractive(model):
        return []
    statements = {one.number: statement_of(job.body, one.citation) for one in table.sources}
    # Rows of data are not compared: another row is about another thing.
    records = {one.number for one in table.sources if _is_record(job.body, one)}
    compared = [one for one in table.sources if one.number not in records]
    if len(compared) < 2:
        return []
    ask = words_table("tasks.toml")["conflicts"].strip()
    prompt = ask.format(passages=passages(compared, statements))
    try:
        return read_conflicts(await job.ask(model, prompt, _CONFLICT_TOKENS), statements)
    except (ModelError, BudgetExhausted, ValueError) as error:
        job.warn(f"contradictions were not searched: {cause_of(error)}")
        return []


def _is_record(body: Body, source: Passage) -> bool:
    document = None if source.citation.start is None else body.document_at(source.citation.start)
    return document is not None and document.has_records and not document.messages


async def _summarize(job: Job, plan: Plan, table: EvidenceTable, gaps: Sequence[tuple[Question, str]]) -> str:
    """Let the summary model answer the task in prose. Its text is kept as it is. If the task is the list of
    the questions, their answers are the report."""
    model = job.config.summary_model
    if is_extractive(job.config.model) or is_extractive(model):
        return ""
    if all(one.supported is False for one in table.findings):
        return ""
    if is_the_task(plan):
        return ""
    ask = words_table("tasks.toml")["report"].strip()
    prompt = ask.format(words=_REPORT_WORDS, task=plan.task, findings=findings_text(plan, table, gaps))
    try:
        reply = await job.ask(model, prompt, 4 * _REPORT_WORDS, is_answer=True)
    except (ModelError, BudgetExhausted) as error:
        job.warn(f"the report has no summary: {cause_of(error)}")
        return ""
    known = range(1, len(table.sources) + 1)
    if not marks_of(reply, known):
        job.warn("the report names no source of its statements")
    if unknown := unknown_marks(reply, len(table.sources)):
        job.warn(f"the report names sources that do not exist: {', '.join(f'[{one}]' for one in unknown)}")
    return reply.strip()
