"""Conflicts that a model lists."""

from __future__ import annotations

import pytest

from rlm.tasks.reports.evidence import read_conflicts


def test_a_models_list_is_read_without_entries_of_fewer_than_two_sources() -> None:
    reply = 'Here: [{"sources": [1, 2], "about": "price"}, {"sources": [9, 1], "about": "x"}]'
    assert [one.sources for one in read_conflicts(reply, dict.fromkeys((1, 2, 3), "It is."))] == [(1, 2)]
    with pytest.raises(ValueError, match="no JSON array"):
        read_conflicts("None.", {1: "It is."})
