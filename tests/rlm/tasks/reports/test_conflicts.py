"""Conflicts found by rules: real ones, and above all no false ones."""

from __future__ import annotations

import pytest

from rlm.results import Citation
from rlm.tasks.reports.conflicts import find_conflicts, may_conflict, read_conflicts
from rlm.tasks.reports.evidence_table import Source


def seen(*texts: str) -> list[tuple[int, ...]]:
    sources = [
        Source(number, Citation(f"[{number}]", text, 0, len(text), f"{number}.txt", None, 1, True))
        for number, text in enumerate(texts, 1)
    ]
    return [conflict.sources for conflict in find_conflicts(sources)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "The northern yard offers the crane for 90,000 euros.",
            "The northern yard offers the crane for 92,000 euros.",
        ),
        (
            "The crane of the yard costs 90,000 euros.",
            "To: buyers. The crane of the yard now costs 92,000 euros.",
        ),
        (
            "The northern yard offers the crane for 90,000 euros, without transport.",
            "To: buying The northern yard called: the northern yard offers the crane for 92,000 euros, "
            "without transport.",
        ),
        ("The tenant gives notice of 3 months.", "The tenant gives notice of 6 months."),
        ("The harbour bridge was opened in 1932.", "The harbour bridge was opened in 1933."),
        ("The pump of the plant was inspected.", "The pump of the plant was never inspected."),
        ("[D1:3] The red pump moves 40 litres a minute.", "(17) The red pump moves 60 litres a minute."),
    ],
)
def test_another_number_or_a_denial_is_a_conflict(one: str, other: str) -> None:
    assert seen(one, other) == [(1, 2)]


@pytest.mark.parametrize(
    ("one", "other"),
    [
        (
            "The northern yard offers the crane for 90,000 euros.",
            "The southern yard offers the crane for 84,500 euros.",
        ),
        ("The crane of the yard costs 90,000 euros.", "The crane of the yard costs 90,000 euros."),
        ("The yard earned 5 million euros in 2020.", "The yard earned 6 million euros in 2021."),
        ("In chapter 3 the ship carries 12 sailors.", "In chapter 4 the ship carries 15 sailors."),
        ("The yard of Mira Holt owns 4 cranes.", "The yard of Zeno Falk owns 5 cranes."),
        ("(12) Yes, I think that is right.", "(15) Yes, I don't think that is right."),
        ("Does the crane of the yard cost 90,000 euros?", "The crane of the yard costs 92,000 euros."),
        (
            "If it rains the pump would move 40 litres a minute.",
            "If it rains the pump moves 60 litres a minute.",
        ),
        ("American Harbour Review, 103(4), 1172-1211.", "American Harbour Review, 106(10), 3133-58."),
        ("Table 1 lists the cranes of the yard.", "Table 2 lists the cranes of the yard."),
        ("1. The crane of the yard is red.", "2. The crane of the yard is red."),
        ("The crane lifts 12 tons.", "The crane is 30 metres high and was built by hand."),
    ],
)
def test_different_names_years_or_labels_are_not_a_conflict(one: str, other: str) -> None:
    """A false conflict is worse than none."""
    assert seen(one, other) == []


def test_one_passage_does_not_contradict_itself() -> None:
    assert seen("The yard paid 5 euros to the crew. The yard paid 6 euros to the crew.") == []


def test_a_models_list_is_read_without_entries_of_fewer_than_two_sources() -> None:
    reply = 'Here: [{"sources": [1, 2], "about": "price"}, {"sources": [9, 1], "about": "x"}]'
    assert [one.sources for one in read_conflicts(reply, dict.fromkeys((1, 2, 3), "It is."))] == [(1, 2)]
    with pytest.raises(ValueError, match="no JSON array"):
        read_conflicts("None.", {1: "It is."})


@pytest.mark.parametrize(
    ("statements", "numbers"),
    [
        ({1: "The ferry Halcyon carries 240 passengers.", 2: "The ferry Halcyon carries 310."}, [1, 2]),
        ({1: "The ferry carries 240 men.", 2: "In May the ferry carries 240 men.", 3: "A cow sat."}, []),
        ({1: "The ferry carries 240 men.", 2: "the ferry carries 240 men."}, []),
        ({1: "Anna had ten sheep in May.", 2: "In May the Toby ran 18 miles."}, []),
    ],
    ids=["same subject", "one within the other", "the same twice", "two stories"],
)
def test_only_passages_that_may_contradict_each_other_are_compared(
    statements: dict[int, str], numbers: list[int]
) -> None:
    assert may_conflict(statements) == numbers
