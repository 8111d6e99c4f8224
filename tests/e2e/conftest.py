"""Run the command line as a user does: another process, real files, real exit codes."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
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


class CommandServer:
    """Runs commands in forks of one process that has imported rlm: see command_server.py."""

    def __init__(self) -> None:
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        with theirs:
            self._process = subprocess.Popen(
                [sys.executable, Path(__file__).with_name("command_server.py"), str(theirs.fileno())],
                pass_fds=[theirs.fileno()],
            )

    def run(
        self,
        arguments: Sequence[str],
        stdin: bytes,
        folder: Path,
        environment: dict[str, str],
        timeout: float,
    ) -> Ran:
        """Run a command to its end. Raises TimeoutError, and then the command is killed."""
        with (
            tempfile.TemporaryFile() as given,
            tempfile.TemporaryFile() as out,
            tempfile.TemporaryFile() as err,
        ):
            given.write(stdin)
            given.seek(0)
            request = {"arguments": list(arguments), "folder": str(folder), "environment": environment}
            self._socket.settimeout(None)
            socket.send_fds(
                self._socket, [json.dumps(request).encode()], [given.fileno(), out.fileno(), err.fileno()]
            )
            process = int(self._socket.recv(64))
            self._socket.settimeout(timeout)
            try:
                code = int(self._socket.recv(64))
            except TimeoutError:
                os.kill(process, signal.SIGKILL)
                self._socket.settimeout(None)
                self._socket.recv(64)
                raise
            out.seek(0)
            err.seek(0)
            return Ran(code, out.read().decode(), err.read().decode())

    def close(self) -> None:
        self._socket.close()
        self._process.wait(timeout=30)


@pytest.fixture(scope="session")
def command_server() -> Iterator[CommandServer]:
    server = CommandServer()
    yield server
    server.close()


@pytest.fixture
def rlm(environment: dict[str, str], tmp_path: Path, command_server: CommandServer) -> Callable[..., Ran]:
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
        given = stdin.encode() if isinstance(stdin, str) else stdin
        return command_server.run(arguments, given, folder, {**environment, **(env or {})}, timeout)

    return run


@pytest.fixture
def run_process(environment: dict[str, str], tmp_path: Path) -> Callable[..., Ran]:
    """Return `run_process("ask", …)`, which runs a command in an interpreter of its own, for what one
    reads when it starts.
    """

    def run(*arguments: str, env: dict[str, str]) -> Ran:
        done = subprocess.run(
            [*COMMAND, *arguments],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            cwd=tmp_path,
            env={**environment, **env},
            timeout=90,
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
