"""The command line as its user runs it: another process, real files, real exit codes."""

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
    """What a finished command left."""

    code: int
    stdout: str
    stderr: str

    @cached_property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @property
    def one_line(self) -> str:
        """All of stderr, which must be one line: no traceback, no noise."""
        lines = self.stderr.strip().splitlines()
        assert len(lines) == 1, self.stderr
        return lines[0]


@pytest.fixture
def environment(sandbox_flag: str) -> dict[str, str]:
    """The guarded environment of the tests, with the isolation this machine has."""
    return {**os.environ, "RLM_SANDBOX": sandbox_flag}


@pytest.fixture(scope="session")
def sandbox_flag() -> str:
    """`auto` where model-written code may run, `0` where the machine has no isolation to offer."""
    done = subprocess.run(
        [*COMMAND, "sandbox", "exec", "-"], input="1", capture_output=True, text=True, timeout=60, check=False
    )
    return "0" if done.returncode == 3 else "auto"


@pytest.fixture
def rlm(environment: dict[str, str], tmp_path: Path) -> Callable[..., Ran]:
    """`rlm("ask", …)`: run it to its end in an empty folder."""
    folder = tmp_path / "work"
    folder.mkdir()

    def run(
        *arguments: str, stdin: str | bytes = "", env: dict[str, str] | None = None, timeout: float = 90
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
    """`rlm_process("ask", …)`: started and left running; whatever still runs is killed after the test. It
    takes signals, also where the tests were started with some ignored (`make test &`)."""
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
