"""Resume whatever a run is: a question, or a job."""

from __future__ import annotations

from rlm.errors import UsageError
from rlm.results import RunResult
from rlm.runs.opening import open_journal
from rlm.runtime import RLM
from rlm.tasks.attempts import resume_attempts
from rlm.tasks.comparison import Comparison, resume_comparison
from rlm.tasks.reports.research import Research, resume_research

__all__ = ["RESUMED_JOBS", "resume_job"]

RESUMED_JOBS = ("research", "compare", "attempts")


async def resume_job(rlm: RLM, run: str) -> RunResult | Research | Comparison:
    """Resume the run whose name is or begins with `run`. Paid replies are reused. A run that has ended
    returns what it returned. Raises JournalError, and UsageError for a summary, which is made again."""
    async with open_journal(rlm.settings) as journal:
        name = await journal.resolve(run)
        job = (await journal.get(name)).settings.get("job")
    if job == "research":
        return await resume_research(rlm, name)
    if job == "compare":
        return await resume_comparison(rlm, name)
    if job == "attempts":
        return await resume_attempts(rlm, name)
    if job == "summarize":
        raise UsageError(
            f"run {name} is a summary: summarize the same input again with since={name} (--since {name}). "
            "What was paid is not paid again"
        )
    return await rlm.resume(name)
