"""Test which runs an export takes, and how answers are compared with golds."""

from __future__ import annotations

from dataclasses import replace

import pytest

from rlm.errors import UsageError
from rlm.journal import RunSummary
from rlm.replay import Golds, Reward, Selection
from rlm.replay.golds import correctness
from rlm.results import RunTotals

RUN = RunSummary("r2", "q", "finished", "finalized", 200.0, 210.0, RunTotals(), {"model": "openai:gpt-5"})
REWARD = Reward(True, True, 0.9, 0.5, 1.0, 0.25, 100)


@pytest.mark.parametrize(
    ("selection", "taken"),
    [
        (Selection(), True),
        (Selection(model="openai:*"), True),
        (Selection(model="gpt*"), False),
        (Selection(status="finished"), True),
        (Selection(status="finalized"), True),
        (Selection(status="cost"), False),
        (Selection(since=200.0, until=200.5), True),
        (Selection(since=201.0), False),
        (Selection(until=200.0), False),
        (Selection(after=(200.0, "r1")), True),
        (Selection(after=(200.0, "r2")), False),
        (Selection(after=(201.0, "r1")), False),
    ],
)
def test_a_run_is_taken_by_what_the_journal_lists(selection: Selection, taken: bool) -> None:
    assert selection._takes(RUN) is taken


@pytest.mark.parametrize(
    ("selection", "reward", "accepted"),
    [
        (Selection(), REWARD, True),
        (Selection(min_supported=0.9, min_coverage=0.5, max_cost_usd=0.25), REWARD, True),
        (Selection(min_supported=0.91), REWARD, False),
        (Selection(min_coverage=0.6), REWARD, False),
        (Selection(max_cost_usd=0.2), REWARD, False),
        (Selection(max_cost_usd=9.0), replace(REWARD, cost_usd=None), False),
        (Selection(min_supported=0.0), replace(REWARD, supported_share=None), False),
    ],
)
def test_a_number_that_is_not_known_is_within_no_bound(selection, reward, accepted: bool) -> None:
    assert selection.accepts(reward) is accepted
    assert selection.has_bounds is (selection != Selection())


@pytest.mark.parametrize(
    ("answer", "gold", "rule", "score"),
    [
        ("  The  Word. ", "the word", "exact", 1.0),
        ("words", "word", "exact", 0.0),
        ({"a": 1, "b": 2}, {"b": 2, "a": 1}, "exact", 1.0),
        ("It is the word here", "the word", "contains", 1.0),
        ("swords", "word", "contains", 0.0),
        ("", "", "contains", 0.0),
        ("About 1,234.50 in all", 1234.5, "number", 1.0),
        ("none", 3, "number", 0.0),
        ("1 of 3", 3, "number", 1.0),
        ("a b", "a c", "f1", 0.5),
        ("", "a", "f1", 0.0),
        ("x" * 10**6, "x", "exact", 0.0),
    ],
)
def test_an_answer_is_compared_by_a_rule(answer, gold, rule, score: float) -> None:
    assert correctness(answer, gold, rule) == score


def test_golds_are_read_by_run_or_question(tmp_path) -> None:
    file = tmp_path / "golds.jsonl"
    file.write_text(
        '{"id": "r1", "answer": ["a", "b"]}\n{"id": "How many?", "answer": 3, "rule": "number"}\n'
    )
    golds = Golds.read(file)
    assert golds.judge("r1", "q", "B") == 1.0
    assert golds.judge("r9", " How many? ", "3 of them: 3") == 1.0
    assert golds.judge("r9", "How many?", None) == 0.0
    assert golds.judge("r9", "other", "x") is None


@pytest.mark.parametrize("line", ["[]", "{", '{"id": 1}', '{"id": 1, "answer": 2, "rule": "vibes"}', "1"])
def test_a_bad_line_of_golds_is_named(tmp_path, line: str) -> None:
    file = tmp_path / "golds.jsonl"
    file.write_text('{"id": "r1", "answer": 1}\n' + line)
    with pytest.raises(UsageError, match=r"golds\.jsonl:2"):
        Golds.read(file)
    with pytest.raises(UsageError, match="cannot read"):
        Golds.read(tmp_path / "none")
