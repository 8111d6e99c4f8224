"""Unpack stores that an older rlm wrote (README.md) into a new home, and run the command line over them."""

from __future__ import annotations

import json
import lzma
import os
import socket
import sqlite3
import subprocess
import sys
from collections.abc import Callable
from contextlib import closing
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import pytest

OLD = Path(__file__).parent / "806c0b8"
COMMAND = Path(sys.executable).with_name("rlm")
RUNS = {
    "deep": "20261122-111654-gcpfnc",
    "direct": "20261122-111701-ptsc2z",
    "killed": "20261122-111705-2cg2rw",
    "interrupted": "20261122-111710-nhz6w7",
    "resumed": "20261122-111715-2ntqhc",
    "limit": "20261122-111726-dr5hj9",
    "unanswered": "20261122-111731-vj8rc8",
    "session": "20261122-111736-6kdsxr",
    "continued": "20261122-111741-4ffpr3",
    "grown": "20261122-111747-qm5t9s",
    "continued_killed": "20261122-111755-nx5rtz",
    "folded": "20261122-111800-8przs4",
    "kernel_died": "20261122-111806-585m6q",
    "refused": "20261122-111810-rnznb2",
    "extractive": "20261122-111814-q44kqn",
    "research": "20261122-111817-vcht9r",
    "research_killed": "20261122-111821-qdw8b6",
    "compare": "20261122-111823-7thb2q",
    "plan": "20261122-111827-8x6b62",
    "summarize": "20261122-111829-2jc5t8",
    "summarize_killed": "20261122-111831-fxzc32",
    "batch_1": "20261122-111834-8mnz3r.4c2ebabdcc3e5178",
    "batch_2": "20261122-111834-8mnz3r.625cc25aef829a30",
    "batch_3": "20261122-111834-8mnz3r.9e3cacdfae6921d8",
    "charged": "20261122-111837-6tw5dj",
    "big": "20261122-111903-cxhzff",
}


@dataclass(frozen=True)
class Ran:
    """The exit code and the output of a finished command."""

    code: int
    stdout: str
    stderr: str

    @cached_property
    def json(self) -> Any:
        return json.loads(self.stdout)

    @cached_property
    def lines(self) -> list[Any]:
        return [json.loads(line) for line in self.stdout.splitlines()]


@pytest.fixture
def old() -> Path:
    """Return the folder of the stores as they were written."""
    return OLD


@pytest.fixture
def run_ids() -> dict[str, str]:
    """Return the names of the runs in the journal."""
    return RUNS


@pytest.fixture(scope="session")
def sandbox_flag() -> str:
    """Return `auto` if model-written code may run, and `0` if the machine has no isolation."""
    done = subprocess.run(
        [COMMAND, "sandbox", "exec", "-"], input="1", capture_output=True, text=True, timeout=60, check=False
    )
    return "0" if done.returncode == 3 else "auto"


@pytest.fixture
def work(tmp_path: Path) -> Path:
    """Return the folder in which the command line runs."""
    folder = tmp_path / "work"
    folder.mkdir()
    return folder


@pytest.fixture
def away() -> Path:
    """Return the journal at its usual place in the test's home, as the machine of its runs left it."""
    store = Path(os.environ["XDG_STATE_HOME"], "rlm", "rlm.db")
    store.parent.mkdir(parents=True, mode=0o700)
    store.write_bytes(lzma.decompress((OLD / "rlm.db.xz").read_bytes()))
    store.chmod(0o600)
    return store


@pytest.fixture
def store(away: Path) -> Path:
    """Return the same journal as if this machine had written it and been restarted since: nobody can know
    that a process of another machine was killed.
    """
    here = json.dumps(socket.gethostname())[1:-1]
    with closing(sqlite3.connect(away)) as database, database:
        database.execute("UPDATE runs SET process = json_set(process, '$.host', ?)", (here,))
    return away


@pytest.fixture
def rlm(work: Path, sandbox_flag: str) -> Callable[..., Ran]:
    """Return `rlm("show", …)`, which runs a command in an empty folder to its end."""

    def run(*arguments: str, timeout: float = 100) -> Ran:
        done = subprocess.run(
            [COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            cwd=work,
            env={**os.environ, "RLM_SANDBOX": sandbox_flag},
            timeout=timeout,
            check=False,
        )
        return Ran(done.returncode, done.stdout, done.stderr)

    return run


@pytest.fixture
def script(work: Path) -> Callable[..., None]:
    """Return `script("killed", ("root", "```repl…"), …)`, which writes the remaining replies of an old
    run's model. Each reply is given once, so a second request for a paid reply fails.
    """

    def write(name: str, *replies: tuple[str, str]) -> None:
        lines = [json.dumps({"role": role, "reply": reply}) + "\n" for role, reply in replies]
        (work / f"{name}.jsonl").write_text("".join(lines))

    return write
