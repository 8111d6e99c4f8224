"""The server over PostgreSQL: a kill."""

from __future__ import annotations

import importlib.util
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest


def load(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"server_{path.stem}", path)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


postgres = load(Path(__file__).parents[2] / "postgres_server.py")
restart = load(Path(__file__).parent / "test_restart.py")
script = restart.script


@pytest.fixture(scope="module")
def maintenance() -> Iterator[str]:
    with postgres.running_server() as url:
        yield url


@pytest.fixture
def store(maintenance: str) -> Iterator[str]:
    with postgres.database(maintenance) as url:
        yield url


async def test_a_run_goes_on_after_kill_9(tmp_path: Path, script: Any, store: str) -> None:
    await restart.check_kill(tmp_path, script, store)
