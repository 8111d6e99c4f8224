"""What each question of a research took, and what was read for those without an answer."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Literal

from rlm.lazy_dataclass import dataclass
from rlm.prompts import states_absence
from rlm.results import RunResult
from rlm.tasks.reports.asking import NotAsked, Outcome
from rlm.tasks.reports.questions import Question

__all__ = ["QuestionAccount", "account_of", "describe_absence"]

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
    costs = [one.cost_usd for one in outcome.usage]
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
        None if None in costs else sum(cost for cost in costs if cost is not None),
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
