"""Provide a place for `rlm mcp`, and clients of it."""

from __future__ import annotations

import os
from pathlib import Path

import pytest
from mcp_clients import OFFER, Connect, Place


@pytest.fixture
def place(tmp_path: Path, sandbox_level: int) -> Place:
    root, outside, home = (tmp_path / name for name in ("root", "outside", "home"))
    for folder in (root, outside, home):
        folder.mkdir(exist_ok=True)
    (root / "offer.md").write_text(OFFER, encoding="utf-8")
    (outside / "secret.txt").write_text("The password of the yard is swordfish.\n", encoding="utf-8")
    env = {
        "HOME": str(home),
        "XDG_CACHE_HOME": str(home / "cache"),
        "RLM_STORE": str(home / "rlm.db"),
        "RLM_SANDBOX": "auto" if sandbox_level else "0",
        "PATH": os.environ["PATH"],
    }
    return Place(root, outside, home, env)


@pytest.fixture
def connect(place: Place) -> Connect:
    """Return `connect(*arguments, mode=…, root=…)`: a client of `rlm mcp *arguments`."""
    return place.connect
