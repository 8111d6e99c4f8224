"""Provide segment stores on both databases."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from rlm.prompts.segments import SegmentStore


@pytest.fixture(params=["sqlite", "postgresql"])
def store_url(request: pytest.FixtureRequest, tmp_path: Path) -> str:
    """Return the URL of a new store, once on each database."""
    if request.param == "sqlite":
        return str(tmp_path / "segments.db")
    return str(request.getfixturevalue("postgres_url"))


@pytest.fixture
def store(store_url: str) -> Iterator[SegmentStore]:
    """Open a new store, once on each database."""
    with SegmentStore.open(store_url) as opened:
        yield opened
