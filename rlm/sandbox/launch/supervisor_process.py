"""Starts supervisors. A supervisor is a separate process, held by a pidfd and two sockets."""

from __future__ import annotations

import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from rlm.sandbox.launch.kernel_view import clean_environment
from rlm.sandbox.launch.readiness import readable

__all__ = [
    "PlainSupervisors",
    "SupervisorLink",
    "SupervisorProcess",
    "SupervisorUnavailable",
    "Supervisors",
    "socket_pairs",
]

_SOCKET_BUFFER = 2**20


class SupervisorUnavailable(Exception):
    """This way of starting supervisors does not work at the moment. Another one may."""


class SupervisorProcess:
    """A supervisor, held by its pidfd, so that a reused pid cannot stand for another process.

    `reap` is called once, after it has ended. It is needed if the supervisor is a child of this process.
    """

    def __init__(self, pidfd: int, reap: Callable[[], object] | None = None) -> None:
        self._pidfd: int | None = pidfd
        self._reap = reap

    async def wait(self) -> None:
        """Wait until the supervisor has ended."""
        if self._pidfd is None:
            return
        await readable(self._pidfd)
        if self._reap is not None:
            self._reap()
        os.close(self._pidfd)
        self._pidfd = None

    def kill(self) -> None:
        """Kill the supervisor, and with it its kernel. Does nothing if it has ended."""
        if self._pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._pidfd, signal.SIGKILL)


@dataclass(frozen=True, slots=True)
class SupervisorLink:
    """A supervisor that waits for its start request, with the driver's ends of its two channels.

    `helper` is the kernel's helper channel. The owner closes both sockets.
    """

    process: SupervisorProcess
    channel: socket.socket
    helper: socket.socket


class Supervisors(Protocol):
    """Starts supervisors."""

    def warm(self) -> None:
        """Begin what the first start waits for. Returns at once. Raises SupervisorUnavailable."""

    async def open(self, log: Path) -> SupervisorLink:
        """Start a supervisor whose stderr goes to `log`. Raises SupervisorUnavailable."""


class PlainSupervisors:
    """Starts each supervisor as a separate program. Slower than a forkserver, but it works everywhere."""

    def warm(self) -> None:
        """Do nothing: each one is started from nothing."""

    async def open(self, log: Path) -> SupervisorLink:
        channel, channel_theirs, helper, helper_theirs = socket_pairs()
        with channel_theirs, helper_theirs:
            try:
                process = _run(channel_theirs.fileno(), helper_theirs.fileno(), log)
            except OSError as error:
                channel.close()
                helper.close()
                raise SupervisorUnavailable(f"no supervisor could be started: {error}") from error
        return SupervisorLink(process, channel, helper)


def _run(channel: int, helper: int, log: Path) -> SupervisorProcess:
    with log.open("ab") as complaints:
        popen = subprocess.Popen(
            [sys.executable, "-I", "-m", "rlm.sandbox.supervisor", str(channel), str(helper)],
            stdin=subprocess.DEVNULL,
            stdout=complaints,
            stderr=complaints,
            env=clean_environment(log.parent),
            pass_fds=(channel, helper),
            start_new_session=True,
        )
    return SupervisorProcess(os.pidfd_open(popen.pid), popen.wait)


def socket_pairs() -> tuple[socket.socket, socket.socket, socket.socket, socket.socket]:
    """Create the supervisor's channel and the helper channel: (ours, theirs, ours, theirs).

    Our ends do not block.
    """
    channel, channel_theirs = socket.socketpair()
    helper, helper_theirs = socket.socketpair()
    for end in (helper, helper_theirs):
        end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
    channel.setblocking(False)
    helper.setblocking(False)
    return channel, channel_theirs, helper, helper_theirs
