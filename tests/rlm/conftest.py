"""Provide whole runs in the tests' process: a scripted model, a real kernel, a real journal."""

from __future__ import annotations

import asyncio
import subprocess
from collections.abc import Awaitable, Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from driver_processes import Drivers, forking_driver

from rlm import RLM, Limits, RunResult, Settings
from rlm.events import Event
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
from rlm.sandbox.types import KernelLimits
from rlm.testing import ScriptedModel


@pytest.fixture(scope="session")
def sandbox_level(tmp_path_factory: pytest.TempPathFactory) -> int:
    """Return the strongest isolation of this machine, at which the tests run model-written code."""

    async def probe() -> int:
        with ContextFileWriter(tmp_path_factory.mktemp("probe") / "context") as writer:
            context = writer.finish()
        kernel = JupyterSandbox(context, None, level=2, limits=KernelLimits())  # type: ignore[arg-type]
        try:
            await kernel.open()
        except SandboxRefused:
            return 0
        finally:
            await kernel.close()
        return 2

    return asyncio.run(probe())


class Runner:
    """Runs a script over a context and keeps everything of it."""

    def __init__(self, level: int, folder: Path) -> None:
        self.store = folder / "rlm.db"
        self.level = level
        self.events: list[Event] = []

    async def __call__(
        self,
        model: ScriptedModel | str,
        context: object = "one two three\n",
        *,
        task: str = "How many?",
        limits: Limits | None = None,
        settings: Settings | None = None,
        schema: object = None,
        **options: object,
    ) -> RunResult:
        chosen = replace(settings or Settings(strategy="rlm"), sandbox=self.level, store=self.store)
        rlm = RLM(model, limits=limits, settings=chosen, observe=self.events.append, **options)
        try:
            return await rlm.run(task, context, schema=schema)
        finally:
            await rlm.aclose()

    def seen(self, kind: type) -> list[Event]:
        return [event for event in self.events if isinstance(event, kind)]


Run = Callable[..., Awaitable[RunResult]]


@pytest.fixture
def run(sandbox_level: int, tmp_path: Path) -> Runner:
    return Runner(sandbox_level, tmp_path)


def block(code: str) -> str:
    """Return a reply that obeys the contract."""
    return f"```repl\n{code}\n```"


@pytest.fixture(name="block")
def _block() -> Callable[[str], str]:
    return block


@pytest.fixture
def tree(tmp_path: Path) -> Path:
    """Return an empty folder whose files are to be loaded."""
    folder = tmp_path / "tree"
    folder.mkdir()
    return folder


@pytest.fixture(scope="session")
def _driver_parent() -> Iterator[subprocess.Popen[str]]:
    with forking_driver() as process:
        yield process


@pytest.fixture
def drivers(
    _driver_parent: subprocess.Popen[str], provider_server: Any, sandbox_level: int, tmp_path: Path
) -> Drivers:
    """Yield drivers over the file `parts.txt`, which the test writes. They ask `provider_server`."""
    order = {
        "model": f"openai:m@{provider_server.url}/v1",
        "store": str(tmp_path / "rlm.db"),
        "sandbox": sandbox_level,
        "key": "key-of-the-first",
        "context": str(tmp_path / "parts.txt"),
    }
    return Drivers(_driver_parent, tmp_path, order)
