"""The earlier questions of the same kernel, and what a new kernel needs to have their variables."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from typing import Self

from rlm.driver.root_state import RootState
from rlm.errors import JournalError, UsageError
from rlm.journal import Journal
from rlm.journal.checks import damage_reported
from rlm.lazy_dataclass import dataclass
from rlm.prompts import EarlierQuestion
from rlm.results import RunResult
from rlm.runs.shared_kernel import PastQuestion
from rlm.runs.stored_run import StoredRun, limits_of, settings_of, stored_result
from rlm.settings import Settings

__all__ = ["PreviousQuestion", "describe_variables", "read_earlier_runs"]


@dataclass(frozen=True, slots=True)
class PreviousQuestion:
    """An earlier question. `run_id` names its run. `variables` describes its variables, by name, and `past`
    makes them again."""

    run_id: str
    question: EarlierQuestion
    variables: Mapping[str, str]

    past: PastQuestion

    @classmethod
    def of(cls, stored: StoredRun) -> Self:
        """Return the question of a stored run. Raises UsageError if the run has not ended."""
        result = stored_result(stored.run_id, stored.events)
        if result is None:
            raise UsageError(
                f"run {stored.run_id} has not ended. Resume it first (rlm resume {stored.run_id})"
            )
        with damage_reported(stored.run_id):
            events = ((event.kind, event.data) for event in stored.recording().events)
            state = RootState.of(events, settings_of(Settings(), stored.facts).root.output_limit)
        return cls.asked(
            stored.task, result, state, stored.facts["context_chars"], limits_of(stored.facts).cell_seconds
        )

    @classmethod
    def asked(cls, task: str, result: RunResult, state: RootState, chars: int, cell_seconds: float) -> Self:
        """Return a question that was answered over a body of `chars` characters."""
        answer = result.answer
        if answer is None:
            text = f"none ({result.stop_reason})"
        else:
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
        past = PastQuestion(chars, tuple(state.cells), cell_seconds)
        return cls(result.run_id, EarlierQuestion(task, text), dict(state.variables), past)


async def read_earlier_runs(journal: Journal, stored: StoredRun) -> tuple[StoredRun, ...]:
    """Return the runs that `stored` continues, oldest first. Raises UsageError if one of them is gone."""
    found: list[StoredRun] = []
    latest, seen = stored, {stored.run_id}
    while (name := latest.facts.get("after")) is not None:
        if name in seen:
            raise UsageError(f"run {stored.run_id} continues itself: its journal is damaged")
        seen.add(name)
        try:
            latest = await StoredRun.read(journal, name)
        except JournalError as error:
            raise UsageError(
                f"run {stored.run_id} continues run {name}, which is no longer in the journal. "
                "Ask the question again"
            ) from error
        found.append(latest)
    return tuple(reversed(found))


def describe_variables(earlier: Sequence[PreviousQuestion]) -> tuple[str, ...]:
    """Return one line for each variable that the kernel holds of these questions: `name: type, size`."""
    variables: dict[str, str] = {}
    for one in earlier:
        variables.update(one.variables)
    return tuple(variables.values())
