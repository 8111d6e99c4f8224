"""Starts an arm's program with its order, against the scripted server."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import urllib.request
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from benchmarks.overhead.environments import ARM_PROGRAMS, run_environment
from benchmarks.overhead.server import OUTER, Script, Seen

__all__ = ["TASK", "Arm", "Order", "Server", "printed_by", "scripted_server"]

TASK = f"{OUTER}: what does it say?"


@dataclass(frozen=True, slots=True)
class Arm:
    """An arm and where it is installed."""

    name: str
    python: Path
    environments: Path


@dataclass(frozen=True, slots=True)
class Order:
    """What a program is told. `store` is where ours keeps its journal, `run` the name of a run that `resume`
    continues; the others have neither. `key` is what the environment holds as the provider's key."""

    arm: str
    url: str
    text: str
    store: str
    as_file: bool = False
    task: str = TASK
    concurrency: int = 16
    depth: int = 1
    cell_seconds: float = 600.0
    run: str = ""
    resume: bool = False

    def start(self, arm: Arm, home: Path, folder: Path, key: str = "key") -> subprocess.Popen[str]:
        """Start the program in a session of its own. Its home is `home`; the order is written to `folder`."""
        order = folder / "order.json"
        order.write_text(json.dumps(asdict(self)))
        variables = {
            "HOME": str(home),
            "XDG_CACHE_HOME": str(home),
            "OPENAI_API_KEY": key,
            "LITELLM_LOCAL_MODEL_COST_MAP": "True",
            "RLM_OPENAI_COMPATIBLE_KEY": key,
            "RLM_OPENAI_COMPATIBLE_KEY_HOST": "127.0.0.1",
        }
        return subprocess.Popen(
            [arm.python, ARM_PROGRAMS[arm.name].path, order],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            cwd=folder,
            env={**os.environ, **variables, **run_environment(arm.name, arm.environments)},
            start_new_session=True,
        )


def printed_by(out: str) -> dict[str, Any] | None:
    """Return what a program printed of its run, or None if it printed nothing of it."""
    try:
        printed = json.loads(out.splitlines()[-1])
    except (IndexError, ValueError):
        return None
    return printed if isinstance(printed, dict) and "answer" in printed else None


@dataclass(frozen=True, slots=True)
class Server:
    """The scripted server: its address and its process number."""

    url: str
    process: int

    def play(self, script: Script) -> None:
        """Set what the next run gets."""
        self._ask("/script", asdict(script))

    def calls(self) -> list[dict[str, Any]]:
        """Return the calls since the script was set."""
        found: list[dict[str, Any]] = json.loads(self._ask("/calls"))
        return found

    def seen(self) -> Seen:
        """Return what else the server saw since the script was set."""
        return Seen(**json.loads(self._ask("/seen")))

    def _ask(self, path: str, body: dict[str, Any] | None = None) -> bytes:
        data = None if body is None else json.dumps(body).encode()
        request = urllib.request.Request(self.url + path, data, method="GET" if data is None else "PUT")
        request.add_header("content-type", "application/json")
        with urllib.request.urlopen(request, timeout=60) as answer:
            return answer.read()  # type: ignore[no-any-return]


@contextmanager
def scripted_server() -> Iterator[Server]:
    """Start the server in a process of its own."""
    process = subprocess.Popen(
        [sys.executable, "-m", "benchmarks.overhead.server"],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
        cwd=Path(__file__).parents[2],
    )
    with process:
        assert process.stdout is not None
        try:
            yield Server(f"http://127.0.0.1:{process.stdout.readline().strip()}", process.pid)
        finally:
            process.kill()  # its standard input ends it, too, where this process is killed
