"""Run the command line as a user does: another process, real files, real exit codes."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

COMMAND = [sys.executable, "-m", "rlm"]


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a finished command."""

    code: int
    stdout: str
    stderr: str

    @cached_property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def one_line(self) -> str:
        """Return stderr, which must be one line: no traceback, no noise."""
        lines = self.stderr.strip().splitlines()
        assert len(lines) == 1, self.stderr
        return lines[0]


@pytest.fixture
def environment(sandbox_flag: str) -> dict[str, str]:
    """Return the guarded environment of the tests, with the isolation of this machine."""
    return {**os.environ, "RLM_SANDBOX": sandbox_flag}


@pytest.fixture(scope="session")
def sandbox_flag() -> str:
    """Return `auto` if model-written code may run, and `0` if the machine has no isolation."""
    done = subprocess.run(
        [*COMMAND, "sandbox", "exec", "-"], input="1", capture_output=True, text=True, timeout=60, check=False
    )
    return "0" if done.returncode == 3 else "auto"


@pytest.fixture
def rlm(environment: dict[str, str], tmp_path: Path) -> Callable[..., Ran]:
    """Return `rlm("ask", …)`, which runs a command in an empty folder to its end."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(
        *arguments: str,
        stdin: str | bytes = "",
        env: dict[str, str] | None = None,
        timeout: float = 90,
        folder: Path = folder,
    ) -> Ran:
        done = subprocess.run(
            [*COMMAND, *arguments],
            input=stdin.encode() if isinstance(stdin, str) else stdin,
            capture_output=True,
            cwd=folder,
            env={**environment, **(env or {})},
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout.decode(), done.stderr.decode())

    return run


@pytest.fixture
def rlm_process(
    environment: dict[str, str], tmp_path: Path
) -> Iterator[Callable[..., subprocess.Popen[str]]]:
    """Yield `rlm_process("ask", …)`, which starts a command and returns it running. Processes that still run
    are killed after the test. They receive signals even if the tests were started with some ignored (`make
    test &`).
    """
    started: list[subprocess.Popen[str]] = []

    def start(*arguments: str) -> subprocess.Popen[str]:
        process = subprocess.Popen(
            ["env", "--default-signal=INT,TERM,HUP", *COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=tmp_path,
            env=environment,
        )
        started.append(process)
        return process

    yield start
    for process in started:
        process.kill()
        process.communicate()
