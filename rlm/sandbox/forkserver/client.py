"""The driver's end of a forkserver."""

from __future__ import annotations

import asyncio
import atexit
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
from rlm.sandbox.forkserver.words import BROKER, END
from rlm.sandbox.launch.broker_process import BrokerLink, BrokerProcess, BrokerUnavailable, socket_pairs
from rlm.sandbox.launch.kernel_view import clean_environment
from rlm.sandbox.launch.readiness import readable

__all__ = ["Forkserver", "shared_forkserver", "shutdown", "warm_forkserver"]

MAX_FAILURES = 3
"""After so many failures in a row it is not tried again."""
_HELLO_SECONDS = 30.0
_END_SECONDS = 2.0
_COMPLAINT_LIMIT = 100_000
_NOWHERE = Path("/nonexistent")


class Forkserver:
    """A process that forks brokers. Started when first needed and again when it has died; ends with this
    process, however that ends. Brokers and kernels that it made do not depend on it. Any thread may use it.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._process: subprocess.Popen[bytes] | None = None
        self._requests: socket.socket | None = None
        self._complaints: IO[bytes] | None = None
        self._failures = 0

    @property
    def pid(self) -> int | None:
        """The process, while there is one."""
        return self._process.pid if self._process is not None and self._process.poll() is None else None

    def warm(self) -> None:
        """Start it now: imports then happen while the caller does something else. Returns at once; raises
        BrokerUnavailable."""
        with self._lock:
            self._ensure()

    async def open(self, log: Path) -> BrokerLink:
        """A new broker. The first one waits until the forkserver has imported what it needs. Raises
        BrokerUnavailable when none can be had this way; the next call tries a new forkserver."""
        channel, channel_theirs, helper, helper_theirs = socket_pairs()
        asked: subprocess.Popen[bytes] | None = None
        try:
            with channel_theirs, helper_theirs, log.open("ab") as complaints:
                with self._lock:
                    requests, asked = self._ensure()
                # One message of a sequenced socket: whole or not at all, whoever else asks.
                given = [channel_theirs.fileno(), helper_theirs.fileno(), complaints.fileno()]
                socket.send_fds(requests, [BROKER], given)
            pidfd = await asyncio.wait_for(_hello(channel), _HELLO_SECONDS)
        except BaseException as error:
            channel.close()
            helper.close()
            if isinstance(error, OSError | TimeoutError):
                # One that is only behind with its work is no worse for it.
                said = "" if isinstance(error, BlockingIOError) else self._failed(asked)
                reason = said or str(error) or "it did not answer"
                raise BrokerUnavailable(f"the forkserver gave no broker: {reason}") from error
            raise
        self._failures = 0
        return BrokerLink(BrokerProcess(pidfd), channel, helper)

    def close(self) -> None:
        """End it. Brokers that it made go on. Safe to call twice; a later `open` starts a new one."""
        with self._lock:
            self._forget()

    def abandon(self) -> None:
        """Let go of it in a process forked from the one that started it: there it must go on."""
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
            raise BrokerUnavailable(f"the forkserver failed {self._failures} times in a row")
        self._forget()
        ours, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        ours.setblocking(False)
        complaints = tempfile.TemporaryFile()  # noqa: SIM115 - closed by _forget
        tops = {tempfile.gettempdir(), str(socket_top())}
        with theirs:
            try:
                process = subprocess.Popen(
                    # Not -I: it would have the seed of hashes ignored. The environment is all ours.
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
                raise BrokerUnavailable(f"no forkserver could be started: {error}") from error
        self._requests, self._process, self._complaints = ours, process, complaints
        return ours, process

    def _forget(self) -> None:
        if self._requests is not None:
            # It ends by this word. Without one it would take this process for dead.
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

    def _failed(self, asked: subprocess.Popen[bytes] | None) -> str:
        """Give up the forkserver that failed, unless another caller has; what it said last."""
        with self._lock:
            if asked is None or asked is not self._process or self._complaints is None:
                return ""
            self._failures += 1
            asked.kill()
            said = os.pread(self._complaints.fileno(), _COMPLAINT_LIMIT, 0).decode(errors="replace").strip()
            self._forget()
        return said.splitlines()[-1] if said else ""


async def _hello(channel: socket.socket) -> int:
    """A broker's first word is a descriptor of itself."""
    await readable(channel.fileno())
    data, descriptors, _, _ = socket.recv_fds(channel, 1, 1)
    if not data or not descriptors:
        raise ConnectionResetError("it ended")
    return descriptors[0]


_shared: Forkserver | None = None
_shared_lock = threading.Lock()


def shared_forkserver() -> Forkserver:
    """The one of this process. It is ended at exit, at the latest."""
    global _shared  # noqa: PLW0603 - one a process is its point
    with _shared_lock:
        if _shared is None:
            _shared = Forkserver()
            atexit.register(_shared.close)
        return _shared


def warm_forkserver() -> None:
    """Start the shared forkserver in the background, so that its imports overlap the caller's.

    Does nothing where a forkserver cannot run: kernels then start without one.
    """
    with suppress(BrokerUnavailable):
        shared_forkserver().warm()


async def shutdown() -> None:
    """End the shared forkserver, if there is one. The next kernel starts a new one."""
    if _shared is not None:
        await asyncio.to_thread(_shared.close)


def _after_fork() -> None:
    global _shared_lock  # noqa: PLW0603
    _shared_lock = threading.Lock()
    if _shared is not None:
        _shared.abandon()


os.register_at_fork(after_in_child=_after_fork)
