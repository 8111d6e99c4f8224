"""What each question of a research took."""

from __future__ import annotations

import pytest

from rlm.results import Coverage, RunResult
from rlm.tasks.reports.asking import account_of
from rlm.tasks.reports.plan import Question


@pytest.mark.parametrize(
    ("strategy", "rounds", "read", "how"),
    [
        ("map-reduce", 0, 10, "map-reduce"),
        ("direct", 0, 10, "direct"),
        ("direct", 0, 4, "passages"),
        ("rlm", 2, 10, "rounds"),
    ],
)
def test_an_account_says_how_a_question_was_answered(strategy, rounds, read, how) -> None:
    """Map-reduce has no rounds and reads everything, and is not one call."""
    result = RunResult(
        run_id="r", answer="x", confidence=None, stop_reason="finalized", forced=False, strategy=strategy,
        citations=(), coverage=Coverage(10, 0, 0, 0, read, complete=read == 10),
        usage=(),
        rounds=rounds, sub_calls=8, seconds=1.0,
    )  # fmt: skip
    assert account_of(Question("1", "What?"), result, ()).how == how
