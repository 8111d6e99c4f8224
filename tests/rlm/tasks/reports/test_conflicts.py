"""Conflicts that a model lists, and which passages it is asked about."""

from __future__ import annotations

import pytest

from rlm.tasks.reports.conflicts import may_conflict, read_conflicts


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
