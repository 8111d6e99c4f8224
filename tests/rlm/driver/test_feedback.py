"""Test the message that shows the root the effects of its block."""

from __future__ import annotations

import re

import pytest

from rlm.children.child_answers import ChildTally
from rlm.driver.feedback import Feedback, coverage_line, render
from rlm.prompts.recipes.notices import advice_on
from rlm.results import Coverage, Span
from rlm.sandbox.types import CellReport, CellResult, VariableInfo


def test_coverage_after_children_is_shown_in_full_and_bounded() -> None:
    """It shows answered, sent, failed, read, searched and chunks, with the first gaps."""
    coverage = Coverage(
        1_000, read_chars=10, scanned_chars=1_000, sent_chars=600, answered_chars=500, failed_chars=100,
        chunks_processed=5, chunks_total=6, gaps=tuple(Span(at, at + 5) for at in range(500, 700, 10)),
        uncovered_chars=490,
    )  # fmt: skip
    line = coverage_line(coverage)
    for fact in ("500 of 1,000", "50.0 %", "60.0 % sent", "10.0 % failed", "1.0 %", "100 % searched"):
        assert fact in line
    for fact in ("5 of 6 chunks", "complete=False", "490 characters", "500-505", "540-545"):
        assert fact in line
    assert "550-555" not in line
    cell = CellResult(status="ok")
    assert line in render(Feedback(1, 30, cell, ChildTally(made=6, failed=1), coverage))
    assert "complete=" not in render(Feedback(1, 30, cell, ChildTally(), coverage))


def test_complete_coverage_is_short() -> None:
    """It shows no gaps and no zeros. Nearly complete is not complete."""
    whole = Coverage(10, answered_chars=10, sent_chars=10, complete=True)
    line = coverage_line(whole)
    for fact in ("10 of 10", "(100 %)", "100 % sent", "complete=True"):
        assert fact in line
    assert not re.search(r"\b0 |0\.0 %|failed|searched|chunks", line)
    nearly = Coverage(10**6, answered_chars=10**6 - 1, gaps=(Span(0, 1),), uncovered_chars=1)
    assert "(99.9 %)" in coverage_line(nearly)
    assert "(< 0.1 %)" in coverage_line(Coverage(10**6, answered_chars=1))


def test_gaps_are_listed_only_where_the_whole_is_near() -> None:
    """A look-up leaves most of the input unread on purpose."""
    gaps = (Span(100, 1_000),)
    assert "100-1,000" not in coverage_line(
        Coverage(1_000, answered_chars=100, gaps=gaps, uncovered_chars=900)
    )


@pytest.mark.parametrize(
    ("round_", "asked", "last_line"),
    [
        (5, 0, "(It printed nothing.)"),
        (5, 2, "Left: 480 child calls, at most 1,234 s."),
        (27, 0, "Left: 480 child calls, at most 1,234 s. Round 30 is kept for finalize."),
    ],
    ids=["without children", "after children", "near the end"],
)
def test_what_is_left_is_said_where_it_matters(round_: int, asked: int, last_line: str) -> None:
    """A root that only looks and computes needs no count of child calls in each message."""
    feedback = Feedback(
        round_, 30, CellResult("ok"), ChildTally(made=asked), Coverage(10), left=(480, 1234.5)
    )
    assert render(feedback).splitlines()[-1] == last_line


def test_an_error_over_a_missing_name_comes_with_what_to_use() -> None:
    """An error with a remedy saves a round."""
    cell = CellResult(
        status="error",
        ename="NameError",
        evalue="name 'context' is not defined",
        traceback="  line 1, in <module>\nNameError: name 'context' is not defined",
    )
    text = render(Feedback(1, 30, cell, ChildTally(), Coverage(10)))
    assert "NameError: name 'context' is not defined\n=====" in text
    assert text.endswith("is kept.\n" + advice_on("NameError", "name 'context' is not defined"))


def test_the_number_of_changed_variables_is_the_true_one() -> None:
    changed = tuple(VariableInfo(f"v{n}", "int") for n in range(500))
    cell = CellResult("ok", report=CellReport(changed=changed, changed_count=100_000))
    text = render(Feedback(1, 30, cell, ChildTally(), Coverage(10)))
    assert "and 99,960 more: SHOW_VARS() lists all" in text


def test_a_small_rest_is_printed_and_a_large_one_is_not() -> None:
    """To fetch 159 characters would cost a round."""
    for chars, is_cut in ((8_159, False), (8_500, False), (8_501, True)):
        cell = CellResult("ok", stdout="x" * chars, stdout_chars=chars)
        shown = render(Feedback(1, 30, cell, ChildTally(), Coverage(10)))
        assert ("characters not shown" in shown) == is_cut
