"""Make the plan of a research."""

from __future__ import annotations

from dataclasses import asdict

from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.prompts.templates import table
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job
from rlm.tasks.reports.questions import Plan, from_markdown, from_task

__all__ = ["make_plan"]

_PLAN_TOKENS = 2_000
_MAX_DOCUMENTS = 30
_MAX_HEADINGS = 12


async def make_plan(job: Job, task: str, most: int) -> Plan:
    """Return the plan that the journal holds, or else make one and write it to the journal.

    The root model makes it from the task and a list of the documents. Without a model the task is split.
    Raises ModelError and BudgetExhausted.
    """
    stored = job.recorded("planned")
    if stored is not None:
        for note in stored["notes"]:
            job.warn(note)
        return Plan.from_json(stored)
    if is_extractive(job.config.model):
        return from_task(task, most)
    noted = len(job.warnings)
    ask = table("tasks.toml")["plan"].strip()
    prompt = ask.format(task=task, most=most, documents=_list_documents(job.body))
    reply = await job.ask(job.config.model, prompt, _PLAN_TOKENS)
    try:
        plan = from_markdown(reply, task)
    except UsageError as error:
        job.warn(f"the model's plan could not be used ({error}); the task was split without a model")
        plan = from_task(task, most)
    if len(plan.leaves) > most:
        job.warn(f"the model planned {len(plan.leaves)} questions; only the first {most} are asked")
        kept = {leaf.number for leaf in plan.leaves[:most]}
        plan = Plan(task, tuple(leaf for leaf in plan.leaves if leaf.number in kept))
    await job.record("planned", {**asdict(plan), "notes": job.warnings[noted:]})
    return plan


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
