"""Answer one question several times, independently, and choose among the answers.

The attempts are parts of one job: they share its limits, run at the same time, and are all in its journal.
"""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

from rlm.answers.answer_type import AnswerType
from rlm.documents import Context, sources_of
from rlm.errors import UsageError
from rlm.models.base import is_extractive
from rlm.results import Confidence, RunResult
from rlm.runs.opening import type_of
from rlm.runtime import RLM
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job, open_job, open_stored_job

__all__ = ["MAX_ATTEMPTS", "Choice", "answer_in_attempts", "choose", "resume_attempts"]

MAX_ATTEMPTS = 20
_AT_ONCE = 4
_ALIKE = 0.7
"""Texts that share this part of their words give the same answer."""
_SHORT_WORDS = 12
"""Answers of fewer words must be equal in all of them: one word is often the whole difference."""
_WORD = re.compile(r"\w+")
_CONFIDENCE: Mapping[Confidence | None, float] = {"low": 0.2, "medium": 0.5, "high": 0.9, None: 0.4}


@dataclass(frozen=True, slots=True)
class Choice:
    """The chosen one of several results, and the number of results that give the same answer, itself
    included."""

    result: RunResult
    agreed: int


async def answer_in_attempts(
    rlm: RLM, task: str, context: Context | None, *, attempts: int, schema: Any = None
) -> RunResult:
    """Answer `task` in so many independent runs (2 to 20) and return the answer that most of them give.

    Among equals the share of verified citations decides, then that of supported claims, then the confidence.
    Usage and cost are those of all runs, and a warning says how many agreed. Raises UsageError,
    SandboxRefused and JournalError.
    """
    if not 2 <= attempts <= MAX_ATTEMPTS:
        raise UsageError(f"{attempts} attempts: give 2 to {MAX_ATTEMPTS}")
    if is_extractive(rlm.model):
        raise UsageError("extractive gives the same answer every time: leave --attempts out")
    answer_type = type_of(task, schema, rlm.model)

    def facts(_: Body) -> Mapping[str, Any]:
        return {"attempts": attempts, "answer_schema": None if answer_type is None else answer_type.text}

    sources = () if context is None else sources_of(context)
    async with open_job(rlm, "attempts", task, sources, facts=facts) as (job, _):
        return await _run_attempts(job, task, attempts, answer_type)


async def resume_attempts(rlm: RLM, run: str, context: Context = (), *, is_replay: bool = False) -> RunResult:
    """Resume a job of attempts by its run's name or a unique start of it. Journalled calls are not made
    again. `context` is its input again, for a journal that did not keep it. A replay runs each attempt again
    and writes nothing. Raises JournalError and UsageError."""
    async with open_stored_job(rlm, "attempts", run, sources_of(context), is_replay=is_replay) as (job, left):
        return await _run_attempts(job, left.task, left.facts["attempts"], left.answer_type)


async def _run_attempts(job: Job, task: str, attempts: int, answer_type: AnswerType | None) -> RunResult:
    limits = job.config.limits
    each = replace(
        limits,
        max_calls=max(1, limits.max_calls // attempts),
        max_total_tokens=max(1, limits.max_total_tokens // attempts),
        max_cost=limits.max_cost / attempts,
        max_seconds=limits.max_seconds / -(-attempts // _AT_ONCE),
    )
    at_once = min(_AT_ONCE, attempts)
    room = asyncio.Semaphore(at_once)
    async with job.parts(attempts, at_once=at_once) as parts:

        async def attempt(number: int) -> RunResult | str:
            async with room:
                return await parts.run_part(
                    f"a{number}", f"attempt {number}", each, lambda part: part.run(task, answer_type)
                )

        tasks = [asyncio.ensure_future(attempt(number)) for number in range(1, attempts + 1)]
        try:
            # Not a TaskGroup: what ends all attempts (no isolation, no journal) is raised as it is.
            ended = await asyncio.gather(*tasks)
        finally:
            for running in tasks:
                running.cancel()
            await asyncio.gather(*tasks, return_exceptions=True)
    results = [one for one in ended if isinstance(one, RunResult)]
    for number, one in enumerate(ended, 1):
        if isinstance(one, str):
            job.warn(f"attempt {number} failed: {one}")
    choice = choose(results)
    if choice is None:
        if results:
            job.stop_reason = results[-1].stop_reason
            job.warn(results[-1].cause or "no attempt gave an answer")
        return await job.finish(None, parts=results)
    job.warn(f"{choice.agreed} of {attempts} attempts agree on this answer")
    for warning in choice.result.warnings:
        job.warn(warning)
    chosen = choice.result
    return await job.finish(
        chosen.answer, chosen.citations, parts=results, support=chosen.support, chosen=chosen
    )


def choose(results: Sequence[RunResult]) -> Choice | None:
    """Return the best of the results that most others agree with, or None if none has an answer."""
    answered = [result for result in results if result.answer is not None]
    if not answered:
        return None
    agreed = {id(one): sum(_agree(one, other) for other in answered) for one in answered}
    best = max(
        answered,
        key=lambda one: (agreed[id(one)], _verified(one), _supported(one), _weight(one.confidence)),
    )
    return Choice(best, agreed[id(best)])


def _agree(one: RunResult, other: RunResult) -> bool:
    if one.found != other.found:
        return False
    if not (isinstance(one.answer, str) and isinstance(other.answer, str)):
        return json.dumps(one.answer, sort_keys=True) == json.dumps(other.answer, sort_keys=True)
    if not one.found:
        return True
    words, others = (_WORD.findall(text.casefold()) for text in (one.answer, other.answer))
    if min(len(words), len(others)) < _SHORT_WORDS:
        return words == others
    shared = len(set(words) & set(others))
    return shared >= _ALIKE * min(len(set(words)), len(set(others)))


def _verified(result: RunResult) -> float:
    if not result.citations:
        return 0.0
    return sum(citation.verified for citation in result.citations) / len(result.citations)


def _supported(result: RunResult) -> float:
    support = result.support
    return support.supported / len(support.claims) if support is not None and support.claims else 0.0


def _weight(confidence: Confidence | None) -> float:
    return confidence if isinstance(confidence, float | int) else _CONFIDENCE[confidence]
