"""The driver's end of a forkserver."""

from __future__ import annotations

import asyncio
import os
import socket
import subprocess
import sys
import tempfile
import threading
from contextlib import suppress
from pathlib import Path
from typing import IO

from rlm.sandbox.folders.private_folder import socket_top
from rlm.sandbox.forkserver.words import END, SUPERVISOR
from rlm.sandbox.launch.brokers import shutdown_brokers, warm_brokers
from rlm.sandbox.launch.kernel_view import clean_environment
from rlm.sandbox.launch.one_per_process import OnePerProcess
from rlm.sandbox.launch.readiness import readable
from rlm.sandbox.launch.supervisor_process import (
    SupervisorLink,
    SupervisorProcess,
    SupervisorUnavailable,
    socket_pairs,
)

__all__ = ["Forkserver", "shared_forkserver", "shutdown", "warm_forkserver"]

MAX_FAILURES = 3
"""Failures in a row after which it is not tried again."""
_HELLO_SECONDS = 30.0
_END_SECONDS = 2.0
_COMPLAINT_LIMIT = 100_000
_NOWHERE = Path("/nonexistent")


class Forkserver:
    """A process that forks supervisors. Safe to use from any thread.

    It is started on first use, restarted if it has died, and ends with this process, even if that is killed.
    Its supervisors and kernels do not depend on it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._complaints: IO[bytes] | None = None
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """Return the id of the process, or None if it is not running."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def warm(self) -> None:
        """Start the process now, so that its imports overlap the caller's work. Returns at once.

        Raises SupervisorUnavailable.
        """
        with self._lock:
            self._ensure()

    async def open(self, log: Path) -> SupervisorLink:
        """Fork a supervisor. The first call waits until the forkserver has finished its imports.

        Raises SupervisorUnavailable if that fails. The next call tries a new forkserver.
        """
        channel, channel_theirs, helper, helper_theirs = socket_pairs()
        asked: subprocess.Popen[bytes] | None = None
        try:
            with channel_theirs, helper_theirs, log.open("ab") as complaints:
                with self._lock:
                    requests, asked = self._ensure()
                # A sequenced socket sends a message whole or not at all, even with concurrent callers.
                given = [channel_theirs.fileno(), helper_theirs.fileno(), complaints.fileno()]
                socket.send_fds(requests, [SUPERVISOR], given)
            pidfd = await asyncio.wait_for(_receive_pidfd(channel), _HELLO_SECONDS)
        except BaseException as error:
            channel.close()
            helper.close()
            if isinstance(error, OSError | TimeoutError):
                # A full socket only means that the forkserver is busy: it is kept.
                said = "" if isinstance(error, BlockingIOError) else self._give_up(asked)
                reason = said or str(error) or "it did not answer"
                raise SupervisorUnavailable(f"the forkserver gave no supervisor: {reason}") from error
            raise
        self._failures = 0
        return SupervisorLink(SupervisorProcess(pidfd), channel, helper)

    def close(self) -> None:
        """Shut down the forkserver. Its supervisors keep running. A later `open` starts a new one."""
        with self._lock:
            self._shut_down()

    def abandon(self) -> None:
        """Drop the process without ending it. For a fork of the process that owns it."""
        self._lock = threading.Lock()
        if self._process is not None:
            self._process.returncode = 0
        self._process = None
        if self._requests is not None:
            self._requests.close()
            self._requests = None

    def _ensure(self) -> tuple[socket.socket, subprocess.Popen[bytes]]:
        if self._requests is not None and self._process is not None and self._process.poll() is None:
            return self._requests, self._process
        if self._failures >= MAX_FAILURES:
            raise SupervisorUnavailable(f"the forkserver failed {self._failures} times in a row")
        self._shut_down()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _shut_down
        tops = {tempfile.gettempdir(), str(socket_top())}
        with theirs:
            try:
                process = subprocess.Popen(
                    # Not -I, which ignores PYTHONHASHSEED. The environment holds only our own variables.
                    [sys.executable, "-s", "-P", "-m", "rlm.sandbox.forkserver", str(theirs.fileno()), *tops],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    env=clean_environment(_NOWHERE),
                    pass_fds=(theirs.fileno(),),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                complaints.close()
                self._failures += 1
                raise SupervisorUnavailable(f"no forkserver could be started: {error}") from error
        self._requests, self._process, self._complaints = ours, process, complaints
        return ours, process

    def _shut_down(self) -> None:
        if self._requests is not None:
            # Without this message it would treat the closed socket as our death and clean up after us.
            with suppress(OSError):
                self._requests.send(END)
            self._requests.close()
            self._requests = None
        if self._process is not None:
            try:
                self._process.wait(_END_SECONDS)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()
            self._process = None
        if self._complaints is not None:
            self._complaints.close()
            self._complaints = None

    def _give_up(self, asked: subprocess.Popen[bytes] | None) -> str:
        """Kill the forkserver that failed, unless another caller did. Return its last line of stderr."""
        with self._lock:
            if asked is None or asked is not self._process or self._complaints is None:
                return ""
            self._failures += 1
            asked.kill()
            said = os.pread(self._complaints.fileno(), _COMPLAINT_LIMIT, 0).decode(errors="replace").strip()
            self._shut_down()
        return said.splitlines()[-1] if said else ""


async def _receive_pidfd(channel: socket.socket) -> int:
    """Receive a supervisor's first message: a pidfd of itself."""
    await readable(channel.fileno())
    data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not data or not descriptors:
        raise ConnectionResetError("it ended")
    return descriptors[0]


_shared = OnePerProcess(Forkserver)


def shared_forkserver() -> Forkserver:
    """Return the forkserver of this process. It is shut down at exit."""
    return _shared.get()


def warm_forkserver() -> None:
    """Start the shared forkserver and the brokers' worker in the background, so that their imports overlap.

    Does nothing where a forkserver cannot run: kernels then start without one.
    """
    with suppress(SupervisorUnavailable):
        shared_forkserver().warm()
    warm_brokers()


async def shutdown() -> None:
    """Shut down the shared forkserver and the brokers' worker. The next kernel starts new ones."""
    if _shared.made is not None:
        await asyncio.to_thread(_shared.made.close)
    shutdown_brokers()
