"""Builds the result of a run from the outcome of its rounds."""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence

from rlm.accounting.run_context import RunContext
from rlm.answers.answer_type import AnswerType
from rlm.children.child_calls import ChildCalls
from rlm.driver.outcome import Outcome
from rlm.events import Warned
from rlm.lazy_dataclass import dataclass
from rlm.results import Note, RunResult, Strategy
from rlm.sandbox.text.body import Body

__all__ = ["Notes", "ResultBuilder", "check_source", "isolation_warning"]


@dataclass(frozen=True, slots=True)
class ResultBuilder:
    """Builds the result. The totals come from the run's own ledgers. `began` is the start of the run on the
    monotonic clock. `warn` adds a note to the run. `is_root` is False for sub-RLMs; only the root warns
    about the whole tree."""

    run_context: RunContext
    child_calls: ChildCalls
    notes: Notes
    warn: Callable[..., None]
    began: float
    is_root: bool
    answer_type: AnswerType | None = None

    @property
    def seconds(self) -> float:
        """Return the seconds that the run has taken so far."""
        return time.monotonic() - self.began

    def build(self, outcome: Outcome, strategy: Strategy) -> RunResult:
        """Return the result, after adding the last warnings to it."""
        context, answer = self.run_context, outcome.answer
        if self.is_root:
            self._warn_about_tree()
        if answer is None and outcome.detail:
            self.warn(outcome.detail)
        if self.is_root and answer is not None and not context.coverage.report().input_chars:
            self.warn(
                "no text was given: the answer is the model's own knowledge, and nothing in it is verified"
            )
        for warning in () if answer is None else answer.warnings:
            self.warn(warning)
        return RunResult(
            run_id=context.log.run_id,
            answer=None if answer is None else answer.value,
            confidence=None if answer is None else answer.confidence,
            stop_reason=outcome.stop_reason,
            forced=outcome.forced,
            strategy=strategy,
            citations=() if answer is None else answer.citations,
            coverage=context.coverage.report(),
            usage=context.metered.usage(),
            rounds=context.budget.rounds,
            sub_calls=self.child_calls.calls,
            seconds=round(self.seconds, 3),
            notes=tuple(self.notes.kept),
            support=None if answer is None else answer.support,
            variables=outcome.variables,
            parsed=None
            if answer is None or self.answer_type is None
            else self.answer_type.parsed(answer.value),
        )

    def _warn_about_tree(self) -> None:
        context = self.run_context
        if not context.budget.cost_known:
            unknown = [one.model for one in context.metered.usage() if one.cost_usd is None]
            self.warn(
                f"the price of {' and '.join(unknown) or 'a model'} is not known: the cost limit was not "
                "applied, only the token limit (rlm.toml takes prices of your own, also 0)",
                "cost_limit",
            )
        if self.notes.dropped:
            self.warn(f"{self.notes.dropped:,} more warnings of sub-RLMs: rlm show {context.log.run_id}")


def isolation_warning(level: int, missing: str) -> str:
    """Say that the code of a run was isolated less than it could be. `missing` are the layers that the
    machine refuses, "" if there are none."""
    isolated = "not isolated" if level == 0 else "only partly isolated"
    reason = f": this machine refuses {missing}" if missing else ""
    return f"the code of this run was {isolated} (level {level}){reason}"


_MAX_FROM_SUB_RLMS = 5
"""How many warnings of sub-RLMs are kept. A thousand sub-RLMs may give a thousand different warnings."""


class Notes:
    """Keeps each note of a run once: of what it did without, the first of each kind, and of what sub-RLMs
    warned of, only the first few."""

    def __init__(self, warnings: Sequence[str] = ()) -> None:
        self.kept = [Note(warning) for warning in warnings]
        self._from_sub_rlms = 0

    @property
    def dropped(self) -> int:
        """Return how many warnings of sub-RLMs were not kept."""
        return max(0, self._from_sub_rlms - _MAX_FROM_SUB_RLMS)

    def add(self, warned: Warned) -> bool:
        """Add a note. Return False if it was already added, or if sub-RLMs gave too many."""
        is_warning = warned.kind == "warning"
        if any(note.text == warned.message if is_warning else note.kind == warned.kind for note in self.kept):
            return False
        if warned.depth and is_warning:
            self._from_sub_rlms += 1
            if self.dropped:
                return False
        self.kept.append(Note(warned.message, warned.kind))
        return True


def check_source(body: Body) -> list[str]:
    """Return a warning if the file that `body` is in was written, moved or removed, and still holds the text
    that the run read. Raises SourceChanged if it does not."""
    if body.watched is None:
        return []
    body.watched.check()
    if not body.watched.has_grown_or_moved:
        return []
    return ["the input file was written, moved or removed during the run: the answer is from its text before"]
