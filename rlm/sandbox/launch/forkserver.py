"""The driver's end of a forkserver, which forks watchers with their kernels and confined programs.

`forkserver_process` is the other end.
"""

from __future__ import annotations

import asyncio
import atexit
import os
import signal
import socket
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Literal

from rlm.sandbox.isolation.views import boot, clean_environment
from rlm.sandbox.launch import WARM, WATCH

__all__ = [
    "Forkserver",
    "ForkserverFailed",
    "WatcherLink",
    "shared_forkserver",
    "warm_forkserver",
]

MAX_FAILURES = 3
"""Failures in a row after which it is not tried again."""
_END = b"e"
"""Exit. This is a normal shutdown, nothing has to be cleaned up."""
_HELLO_SECONDS = 30.0
_END_SECONDS = 2.0
_COMPLAINT_LIMIT = 100_000
_NOWHERE = Path("/nonexistent")
_HELPER_BUFFER = 2**20


class ForkserverFailed(Exception):
    """The forkserver gave no watcher. The next call tries a new one."""


@dataclass(frozen=True, slots=True)
class WatcherLink:
    """A watcher that waits for its start request. The owner closes the sockets and the pidfd.

    `channel` leads to the watcher, `helper` to the kernel or program. Unlike a pid, the pidfd cannot come to
    mean another process.
    """

    pidfd: int
    channel: socket.socket
    helper: socket.socket

    def kill(self) -> None:
        """Kill the watcher, and with it what it watches. Does nothing if it has ended."""
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self.pidfd, signal.SIGKILL)

    async def wait(self) -> None:
        """Wait until the watcher has ended."""
        await _readable(self.pidfd)


class Forkserver:
    """A process that forks watchers. Safe to use from any thread.

    It is started on first use, restarted if it has died, and ends with this process, even if that is killed.
    Its watchers and kernels do not depend on it. `way` is how kernels start: forked, or as programs.
    """

    def __init__(self, way: Literal["fork", "program"] = "fork") -> None:
        self._way = way
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
        """Have the process import what kernels need, so that it overlaps the caller's work. Returns at once.

        Raises ForkserverFailed.
        """
        with self._lock, suppress(OSError):  # it is busy or has died: the next kernel tells why
            self._ensure()[0].send(WARM)

    async def open(self, log: int) -> WatcherLink:
        """Fork a watcher for a kernel, whose stderr is the file `log`. The first call waits for the imports.

        Raises ForkserverFailed.
        """
        with self._asking([WARM, WATCH], log, socket.SOCK_STREAM) as (channel, helper):
            channel.setblocking(False)
            helper.setblocking(False)
            async with asyncio.timeout(_HELLO_SECONDS):
                await _readable(channel.fileno())
            return WatcherLink(_receive_pidfd(channel), channel, helper)

    def open_for_program(self, log: int) -> WatcherLink:
        """Fork a watcher for a program, whose output is the file `log`. `helper` keeps messages apart.

        Raises ForkserverFailed.
        """
        with self._asking([WATCH], log, socket.SOCK_SEQPACKET) as (channel, helper):
            channel.settimeout(_HELLO_SECONDS)
            return WatcherLink(_receive_pidfd(channel), channel, helper)

    @contextmanager
    def _asking(
        self, words: Sequence[bytes], log: int, kind: socket.SocketKind
    ) -> Iterator[tuple[socket.socket, socket.socket]]:
        """Ask for a watcher. Yield the channel to it, and ours of a pair of sockets of that kind.

        They are closed if the body fails, and so is the forkserver. Raises ForkserverFailed.
        """
        channel, channel_theirs = socket.socketpair()
        helper, helper_theirs = socket.socketpair(socket.AF_UNIX, kind)
        asked: subprocess.Popen[bytes] | None = None
        try:
            with channel_theirs, helper_theirs:
                for end in (helper, helper_theirs):
                    end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _HELPER_BUFFER)
                with self._lock:
                    requests, asked = self._ensure()
                given = [channel_theirs.fileno(), helper_theirs.fileno(), log]
                for word in words:
                    # A sequenced socket sends a message whole or not at all, even with concurrent callers.
                    socket.send_fds(requests, [word], given if word == WATCH else [])
            yield channel, helper
        except BaseException as error:
            channel.close()
            helper.close()
            if isinstance(error, OSError | TimeoutError):
                # A full socket only means that the forkserver is busy: it is kept.
                said = "" if isinstance(error, BlockingIOError) else self._give_up(asked)
                reason = said or str(error) or "it did not answer"
                raise ForkserverFailed(f"the forkserver gave no watcher: {reason}") from error
            raise
        self._failures = 0

    def close(self) -> None:
        """Shut down the forkserver. Its watchers keep running. A later `open` starts a new one."""
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
            raise ForkserverFailed(f"the forkserver failed {self._failures} times in a row")
        self._shut_down()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _shut_down
        driver = os.pidfd_open(os.getpid())
        with theirs:
            try:
                process = subprocess.Popen(
                    [
                        # Not -I, which ignores PYTHONHASHSEED. The environment holds only our own variables.
                        *(sys.executable, "-s", "-P", *boot("launch.forkserver_process")),
                        *(str(theirs.fileno()), str(driver), self._way, tempfile.gettempdir()),
                    ],
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=complaints,
                    env=clean_environment(_NOWHERE),
                    pass_fds=(theirs.fileno(), driver),
                    start_new_session=True,
                )
            except OSError as error:
                ours.close()
                complaints.close()
                self._failures += 1
                raise ForkserverFailed(f"no forkserver could be started: {error}") from error
            finally:
                os.close(driver)
        self._requests, self._process, self._complaints = ours, process, complaints
        return ours, process

    def _shut_down(self) -> None:
        if self._requests is not None:
            # Without this message it would treat the closed socket as our death and clean up after us.
            with suppress(OSError):
                self._requests.send(_END)
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


def _receive_pidfd(channel: socket.socket) -> int:
    """Receive a watcher's first message: a pidfd of itself."""
    data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not data or not descriptors:
        raise ConnectionResetError("it ended")
    return descriptors[0]


async def _readable(descriptor: int) -> None:
    """Wait until `descriptor` is readable. A pidfd is readable once its process has ended."""
    loop = asyncio.get_running_loop()
    ready = asyncio.Event()
    loop.add_reader(descriptor, ready.set)
    try:
        await ready.wait()
    finally:
        loop.remove_reader(descriptor)


_shared = Forkserver()
atexit.register(_shared.close)
os.register_at_fork(after_in_child=_shared.abandon)


def shared_forkserver() -> Forkserver:
    """Return the forkserver of this process. It is shut down at exit."""
    return _shared


def warm_forkserver() -> None:
    """Start the shared forkserver in the background, so that its imports overlap the caller's.

    Does nothing where none can run: the first kernel then reports why.
    """
    with suppress(ForkserverFailed):
        _shared.warm()
