"""Make the plan of a research: the task's own questions, or those of a model, which are reviewed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import asdict

from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.prompts.templates import table
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job
from rlm.tasks.reports.plan_review import find_guesses, own_plan, review_plan, strip_guesses
from rlm.tasks.reports.questions import Plan, Question, from_markdown, from_task

__all__ = ["make_plan"]

_PLAN_TOKENS = 2_000
_MAX_DOCUMENTS = 30
_MAX_HEADINGS = 12


async def make_plan(job: Job, task: str, most: int) -> Plan:
    """Return the plan that the journal holds, or else make one and write it to the journal.

    A task that is a list of questions, or one look-up, is its own plan. Otherwise the root model makes it
    from the task and a list of the documents. Without a model the task is split. Raises ModelError and
    BudgetExhausted.
    """
    stored = job.recorded("planned")
    if stored is not None:
        for note in stored["notes"]:
            job.warn(note)
        return Plan.from_json(stored)
    if is_extractive(job.config.model):
        return from_task(task, most)
    noted = len(job.warnings)
    plan = own_plan(task, most) or await _ask_for_plan(job, task, most)
    await job.record("planned", {**asdict(plan), "notes": job.warnings[noted:]})
    return plan


async def _ask_for_plan(job: Job, task: str, most: int) -> Plan:
    words = table("tasks.toml")
    documents = _list_documents(job.body)
    prompt = words["plan"].strip().format(task=task, most=most, documents=documents)
    model = job.config.model
    reply = await job.ask(model, prompt, _PLAN_TOKENS)
    try:
        plan = _reviewed(job, from_markdown(reply, task))
        seen = (task, documents)
        guesses = _guesses(plan, seen)
        if guesses:
            ask = words["plan_guesses"].strip()
            listed = plan.markdown().partition("\n\n")[2]
            more = f"{prompt}\n\n{ask.format(plan=listed, guesses=', '.join(guesses))}"
            again = from_markdown(await job.ask(model, more, _PLAN_TOKENS), task)
            plan = _without_guesses(job, _reviewed(job, again), seen)
    except UsageError as error:
        job.warn(f"the model's plan could not be used ({error}); the task was split without a model")
        return from_task(task, most)
    if len(plan.leaves) > most:
        job.warn(f"the model planned {len(plan.leaves)} questions; only the first {most} are asked")
        return Plan(task, tuple(Question(str(n), one.text) for n, one in enumerate(plan.leaves[:most], 1)))
    return plan


def _reviewed(job: Job, plan: Plan) -> Plan:
    """Return the plan without guesses in asides, and without what is asked twice."""
    seen = (plan.task, _list_documents(job.body))

    def stripped(question: Question) -> Question:
        return Question(
            question.number, strip_guesses(question.text, seen), tuple(map(stripped, question.parts))
        )

    review = review_plan(Plan(plan.task, tuple(map(stripped, plan.questions))))
    for note in review.notes:
        job.warn(f"a planned question {note}")
    return review.plan


def _guesses(plan: Plan, seen: Sequence[str]) -> list[str]:
    return list(dict.fromkeys(guess for leaf in plan.leaves for guess in find_guesses(leaf.text, seen)))


def _without_guesses(job: Job, plan: Plan, seen: Sequence[str]) -> Plan:
    """Drop the questions that still name what neither the task nor any document has.

    A name that a document has may be asked for: it was guessed, but it is a subject of the text.
    """
    text = job.body.text(0, job.body.chars).casefold()
    kept = []
    for leaf in plan.leaves:
        guesses = [one for one in find_guesses(leaf.text, seen) if one.casefold() not in text]
        if guesses:
            job.warn(f"a planned question guesses {', '.join(guesses)} and was dropped: {leaf.text}")
        else:
            kept.append(leaf)
    if not kept:
        raise UsageError("each of its questions guesses an answer")
    return review_plan(Plan(plan.task, tuple(kept))).plan


def _list_documents(body: Body) -> str:
    """Return the documents' names, their sizes and their first headings."""
    lines = []
    for document in body.documents[:_MAX_DOCUMENTS]:
        rows = list(body.marks.headings.between(document.start, document.end))[:_MAX_HEADINGS]
        titles = "; ".join(" ".join(body.text(*body.marks.title(row)).split()) for row in rows)
        size = f"{document.end - document.start:,} characters"
        name = " ".join(document.name.split())
        lines.append(f"- {name} ({size})" + (f": {titles}" if titles else ""))
    if len(body.documents) > _MAX_DOCUMENTS:
        lines.append(f"- … and {len(body.documents) - _MAX_DOCUMENTS:,} more")
    return "\n".join(lines)
