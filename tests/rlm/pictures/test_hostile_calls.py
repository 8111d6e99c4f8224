"""Test what a hostile kernel may send about pages: it is checked like every other word."""

from __future__ import annotations

from pathlib import Path

import pytest
from handmade_pdf import scanned_pdf

from rlm.children.page_looks import PageLooks
from rlm.children.run_input import RunInput
from rlm.documents import load
from rlm.models.base import ModelWindow
from rlm.sandbox.host.requests import BadCall, child_batch, finalization
from rlm.sandbox.types import SeenPages, Span
from rlm.testing import ScriptedModel

BATCH = {"prompts": ["x"], "slices": [[[0, 1]]]}
FINAL = {"value": 1, "confidence": None, "read": [], "scanned": []}


@pytest.mark.parametrize(
    "sent", [{"look": 1}, {"look": "yes"}, {"look": None}, {"look": True, "slices": [None]}], ids=str
)
def test_a_broken_look_ends_the_kernel(sent) -> None:
    with pytest.raises(ValueError, match="look"):
        child_batch({**BATCH, **sent}, 10)


@pytest.mark.parametrize("piece", [{"seen": 1}, {"seen": [1]}, {"seen": [0, 1], "more": 1}, {}], ids=str)
def test_broken_evidence_ends_the_kernel(piece) -> None:
    with pytest.raises(ValueError, match="span"):
        finalization({**FINAL, "evidence": [piece]}, 10)


def test_seen_pages_are_evidence() -> None:
    final = finalization({**FINAL, "evidence": [{"seen": [0, 1]}]}, 10)
    assert final.evidence == (SeenPages(Span(0, 1)),)


def test_a_look_is_bounded(tmp_path: Path) -> None:
    """However many spans are sent, a child sees at most 8 pages."""
    scan = scanned_pdf(tmp_path / "scan.pdf", *(["x"] for _ in range(9)))
    loaded = load([scan], tmp_path / "context", pictures=True)
    model = ScriptedModel.of(window=ModelWindow(9_000, 900, sees=True))
    with loaded.context.open() as body:
        looks = PageLooks(model, RunInput(loaded.context, body))
        assert [page.number for page in looks.pages([Span(7, 9)])] == [8, 9]
        for spans in ([Span(0, 9)], [Span(0, 1)] * 10_000):
            with pytest.raises(BadCall, match="at most 8 pages"):
                looks.pages(spans)
        with pytest.raises(BadCall, match="no place on a page"):
            looks.pages([])
