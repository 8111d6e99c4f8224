"""What the tests of tasks share."""

from __future__ import annotations

import pytest

from rlm.tasks.summaries import summarize


@pytest.fixture
def in_parts(monkeypatch: pytest.MonkeyPatch) -> None:
    """Summarize as if no text fitted one call of the model."""
    monkeypatch.setattr(summarize, "fits_one_call", lambda *_: False)
