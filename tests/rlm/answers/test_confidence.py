"""Test that the confidence of an answer is checked against what was looked at."""

from __future__ import annotations

import pytest

from rlm.accounting.coverage import CoverageLedger
from rlm.answers.confidence import limit_confidence
from rlm.results import Citation, Span
from rlm.testing import ScriptedModel

FOUND = Citation("[¹]", "a", 0, 1, "d", None, 1, True)
MISSING = Citation("[²]", "b", None, None, None, None, None, False)
ABSENT = "Not in the documents: nothing on it."


def ledger(**noted: tuple[int, int]) -> CoverageLedger:
    made = CoverageLedger(100_000)
    for what, span in noted.items():
        made.note(what, [Span(*span)])
    return made


@pytest.mark.parametrize(
    ("noted", "citations", "value", "lowered"),
    [
        ({"scanned": (0, 100_000)}, (), "x", "high"),
        ({"scanned": (0, 100_000)}, (FOUND,), "x", "high"),
        ({"scanned": (0, 100_000)}, (), ABSENT, "high"),
        ({"read": (0, 99_500)}, (), "x", "high"),
        ({"scanned": (0, 40_000)}, (FOUND,), "x", "high"),
        ({"scanned": (0, 40_000)}, (), "x", "medium"),
        ({"scanned": (0, 40_000)}, (FOUND,), ABSENT, "low"),
        ({"read": (0, 500)}, (), "x", "low"),
        ({"read": (0, 500)}, (FOUND,), "x", "medium"),
        ({"scanned": (0, 100_000), "failed": (10, 20)}, (FOUND,), "x", "medium"),
        ({"answered": (0, 100_000), "failed": (10, 20)}, (FOUND,), "x", "high"),
        ({"scanned": (0, 100_000)}, (FOUND, MISSING), "x", "medium"),
        ({"scanned": (0, 100_000)}, (MISSING,), "x", "low"),
    ],
)
def test_a_high_confidence_needs_coverage(noted, citations, value, lowered) -> None:
    confidence, why = limit_confidence("high", value, citations, ledger(**noted))
    assert confidence == lowered
    assert bool(why) == (lowered != "high")


def test_a_number_is_lowered_like_its_word_and_a_low_one_stays() -> None:
    seen = ledger(read=(0, 500))
    assert limit_confidence(0.95, "x", (), seen)[0] == 0.3
    assert limit_confidence(0.95, "x", (FOUND,), seen)[0] == 0.6
    assert limit_confidence(0.2, "x", (), seen) == (0.2, "")
    assert limit_confidence("low", "x", (), seen) == ("low", "")
    assert limit_confidence(None, "x", (), seen) == (None, "")
    assert limit_confidence("high", "x", (), seen, looked_before=True) == ("high", "")


async def test_a_run_says_why_its_confidence_was_lowered(run, block) -> None:
    """A batch had failures, and the root was sure all the same."""
    failing = iter([False, True])
    model = ScriptedModel.of(
        root=[block("b = sub_query_batch('q', chunk(5_000))\nfinalize(b.joined(), confidence='high')")],
        child=lambda request: "" if next(failing, False) else "said",
    )
    result = await run(model, "one two three\n" * 1_000)
    assert result.confidence == "medium"
    assert result.warnings[-1] == (
        "the confidence was lowered from high to medium: only 2 of 3 chunks were answered; "
        "only 64.3 % of the input was searched, read or answered for"
    )
