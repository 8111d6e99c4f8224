"""Test which invalid calls are told to the cell, and which end the kernel."""

from __future__ import annotations

from typing import Any

import pytest

from rlm.sandbox.host.requests import BadCall, child_batch, finalization, sub_rlm_batch

CHARS = 100
FINAL: dict[str, Any] = {"value": 1, "confidence": None, "evidence": [], "read": [], "scanned": []}
BATCH: dict[str, Any] = {"prompts": ["q"], "slices": [None], "sample": 0, "numbered": False, "schema": None}


@pytest.mark.parametrize(
    ("evidence", "told"),
    [
        ([[20, 5]], r"\[20, 5\] is not a span"),
        ([[-10, -1]], r"\[-10, -1\] is not a span"),
        ([[0, 1]] * 1_001, "evidence holds 1,001 pieces"),
        ([[0, 1]] * 20_000, "evidence holds 20,000 pieces"),
    ],
)
def test_evidence_that_a_mistake_can_give_is_told(evidence: list[Any], told: str) -> None:
    with pytest.raises(BadCall, match=told) as refused:
        finalization({**FINAL, "evidence": evidence}, CHARS)
    assert refused.value.type == "value"


@pytest.mark.parametrize(
    "evidence", [[[0, 1, 2]], [[0, True]], [[0, 1.5]], [{"start": 0}], [[2**60, 1]], "x"]
)
def test_evidence_that_no_honest_kernel_sends_ends_it(evidence: Any) -> None:
    with pytest.raises(ValueError):  # noqa: PT011 - the bridge takes any ValueError for a broken peer
        finalization({**FINAL, "evidence": evidence}, CHARS)


def test_evidence_beyond_the_text_is_left_to_the_run() -> None:
    """It becomes an unverified citation."""
    assert finalization({**FINAL, "evidence": [[0, 10**6]]}, CHARS).evidence == ((0, 10**6),)


@pytest.mark.parametrize(
    ("pieces", "kind"),
    [([[0, 1]] * 10_001, "slice_too_large"), ([[0, CHARS + 1]], "value"), ([[5, 3]], "value")],
)
def test_a_slice_that_a_mistake_can_give_is_told(pieces: list[Any], kind: str) -> None:
    with pytest.raises(BadCall) as refused:
        child_batch({**BATCH, "slices": [pieces]}, CHARS)
    assert refused.value.type == kind
    with pytest.raises(BadCall) as refused:
        sub_rlm_batch({"prompts": ["q"], "sources": [pieces]}, CHARS)
    assert refused.value.type == kind
