"""Tests that every file named in the docs exists."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

ROOT = Path(__file__).parents[1]
PAGES = sorted([*ROOT.glob("*.md"), *(ROOT / "docs").rglob("*.md")])
PATH = re.compile(r"`((?:[a-z_]+/)+[a-z_]+\.(?:py|md|toml|json))`")


@pytest.mark.parametrize(
    "page", [page for page in PAGES if page.name != "CHANGELOG.md"], ids=lambda page: page.name
)
def test_the_files_a_page_names_exist(page: Path) -> None:
    """Paths are relative to the repository, and in the picture of the house to the package."""
    named = set(PATH.findall(page.read_text(encoding="utf-8")))
    missing = {name for name in named if not any((top / name).exists() for top in (ROOT, ROOT / "rlm"))}
    assert not missing
