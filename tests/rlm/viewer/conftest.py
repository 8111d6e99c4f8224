"""Provide journals to look at: a run with most of what can happen, and one that is written by hand."""

from __future__ import annotations

import asyncio
import importlib.util
import sys
from asyncio.subprocess import PIPE
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from rlm import Settings
from rlm.journal import Journal
from rlm.models.catalog.info import ModelInfo
from rlm.viewer import RunViews


@dataclass(frozen=True)
class Yards:
    """The store of two runs of the yards, and their names, newest first."""

    store: Path
    runs: tuple[str, ...]

    @property
    def newest(self) -> str:
        return self.runs[0]


def _load(name: str) -> ModuleType:
    spec = importlib.util.spec_from_file_location(name, Path(__file__).with_name(f"{name}.py"))
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.fixture(scope="session")
def yard_run() -> ModuleType:
    """Return the module yard_run.py: the documents, the model and the question."""
    return _load("yard_run")


@pytest.fixture(scope="session")
def yards(yard_run: ModuleType, sandbox_level: int, tmp_path_factory: pytest.TempPathFactory) -> Yards:
    folder = tmp_path_factory.mktemp("yards")
    settings = Settings(
        strategy="rlm",
        sandbox=sandbox_level,
        store=folder / "rlm.db",
        document_cache=False,
        facts={"scripted:memory": ModelInfo(input_price=3.0, output_price=15.0)},
    )

    async def ask() -> list[str]:
        return [(await yard_run.ask_yards(folder / "input", settings)).run_id for _ in range(2)]

    return Yards(folder / "rlm.db", tuple(reversed(asyncio.run(ask()))))


@pytest.fixture
async def journal(tmp_path: Path) -> AsyncIterator[Journal]:
    """Yield an empty journal."""
    async with Journal.open(tmp_path / "own.db") as opened:
        yield opened


@pytest.fixture
async def views(journal: Journal) -> AsyncIterator[RunViews]:
    async with RunViews(journal) as opened:
        yield opened


@pytest.fixture
async def yard_views(yards: Yards) -> AsyncIterator[RunViews]:
    async with Journal.open(yards.store) as opened, RunViews(opened) as shown:
        yield shown


@pytest.fixture
async def run_view() -> AsyncIterator[Callable[..., Awaitable[tuple[str, asyncio.subprocess.Process]]]]:
    """Yield a function that starts `rlm view` and returns its address and its process."""
    started: list[asyncio.subprocess.Process] = []

    async def run(*arguments: str) -> tuple[str, asyncio.subprocess.Process]:
        process = await asyncio.create_subprocess_exec(
            sys.executable, "-m", "rlm", "view", *arguments, stdout=PIPE, stderr=PIPE
        )
        started.append(process)
        assert process.stdout is not None
        return (await asyncio.wait_for(process.stdout.readline(), 60)).decode().strip(), process

    yield run
    for process in started:
        if process.returncode is None:
            process.kill()
        await process.communicate()


@pytest.fixture
def write_children(journal: Journal) -> Callable[..., Awaitable[None]]:
    """Return a function that writes an interrupted run of so many children: `await write("r1", 100)`."""

    async def write(run_id: str, count: int, **more: Any) -> None:
        await _write_children(journal, run_id, count, **more)

    return write


@pytest.fixture
def child_event() -> Callable[..., dict[str, Any]]:
    return _child_event


def _child_event(number: int, reply: str = "nothing", **more: Any) -> dict[str, Any]:
    """Return the data of a child of round 1."""
    return {
        "prompt": f"Read part {number}.", "spans": [[number * 100, number * 100 + 100]],
        "asked": f"a{number}", "key": f"k{number}", "role": "child", "model": "scripted:memory", "round": 1,
        "prompt_tokens": 100, "max_output_tokens": 800, "reply": reply, "finish_reason": "stop",
        "usage": {"input_tokens": 100, "output_tokens": 10}, "cost_usd": 0.0001, "seconds": 0.5, **more,
    }  # fmt: skip


async def _write_children(journal: Journal, run_id: str, count: int, **settings: Any) -> None:
    """Write an interrupted run of one round and `count` children."""
    facts = {
        "model": "scripted:memory",
        "sub_model": "scripted:memory",
        "context_chars": count * 100,
        **settings,
    }
    async with journal.run(run_id, "How many?", facts) as log:
        call = {
            "role": "root",
            "model": "scripted:memory",
            "round": 1,
            "reply": "```repl\nx\n```",
            "seconds": 0.1,
        }
        await log.append("model_call", {**call, "usage": {}, "cost_usd": 0.0, "finish_reason": "stop"})
        await asyncio.gather(
            *(
                log.append("child", _child_event(number, f"part {number} says {number * 7}"))
                for number in range(count)
            )
        )
