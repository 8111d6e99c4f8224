"""Provide the settings of runs whose store is the test's own."""

from __future__ import annotations

from pathlib import Path

import pytest

from rlm import Settings


@pytest.fixture
def settings(sandbox_level: int, tmp_path: Path) -> Settings:
    return Settings(strategy="rlm", sandbox=sandbox_level, store=tmp_path / "rlm.db")
