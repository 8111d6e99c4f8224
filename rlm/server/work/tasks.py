"""Perform a request with the tasks, or resume what the journal holds of it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from rlm.documents import Source
from rlm.errors import UsageError
from rlm.journal import Journal
from rlm.results import RunResult
from rlm.runtime import RLM
from rlm.server.work.request import WorkRequest
from rlm.tasks import ask, research, summarize
from rlm.tasks.attempts import resume_attempts
from rlm.tasks.reports.research import resume_research

__all__ = ["perform"]


async def perform(
    rlm: RLM, journal: Journal, request: WorkRequest, sources: Sequence[Source] | None, journal_id: str
) -> tuple[RunResult, dict[str, Any]]:
    """Perform the request as the run `journal_id`, and return the result with its JSON. `rlm` has the limits
    of the run, and that name. What the journal holds of the run is not asked again. Raises what tasks raise.
    """
    given = list(sources or ())
    is_begun = await journal.holds(journal_id)
    if is_begun:
        # The caller leases the store, so nobody else writes this run.
        await journal.release(journal_id)
    if request.kind == "summary":
        summary = await summarize(rlm, _needed(sources), since=request.face.get("since"), **request.options)
        return summary.result, summary.to_json()
    if request.kind == "research":
        if is_begun:
            found = await resume_research(rlm, journal_id, given)
        else:
            found = await research(rlm, request.task, _needed(sources), **request.options)
        return found.result, found.to_json()
    attempts = request.options.get("attempts", 1)
    if is_begun and attempts > 1:
        result = await resume_attempts(rlm, journal_id, given)
    elif is_begun:
        result = await rlm.resume(journal_id, context=given or None, cost_usd=rlm.limits.max_cost)
    else:
        answered = await ask(rlm, request.task, sources, schema=request.schema, attempts=attempts)
        result = answered.result
    return result, {**result.to_json(), "text": result.text}


def _needed(sources: Sequence[Source] | None) -> Sequence[Source]:
    if not sources:
        raise UsageError("no context is given: name texts, files or paths")
    return sources
