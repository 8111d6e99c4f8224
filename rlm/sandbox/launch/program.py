"""Starts a program in a confinement, under a watcher. For workers and for probes."""

from __future__ import annotations

import os
import select
import socket
import tempfile
import time
from collections.abc import Mapping, Sequence
from typing import Any

from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.policy import Confinement, IsolationReport
from rlm.sandbox.launch.forkserver import ForkserverFailed, WatcherLink, shared_forkserver

__all__ = ["ConfinedProgram", "LayersRefused"]

_END_SECONDS = 2.0
_LOG_BYTES = 100_000


class LayersRefused(Exception):
    """This machine does not give the layers of a confinement. `failed` maps each to the reason."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__()
        self.failed = dict(failed)


class ConfinedProgram:
    """A running program with all that it starts. `channel` leads to it, and keeps messages apart.

    It ends with this process, even if that is killed, and with the process `pid`.
    """

    def __init__(self, confinement: Confinement, command: Sequence[str], *, seconds: float) -> None:
        """Start `command`, whose last argument becomes its end of the channel, and confine it.

        The folders of the confinement exist, and are the caller's to remove. Raises LayersRefused, and
        OSError if it does not start within `seconds`.
        """
        until = time.monotonic() + seconds
        self._log = tempfile.TemporaryFile()  # noqa: SIM115 - closed by `end`
        self._link: WatcherLink | None = None
        try:
            self._link = _open_link(self._log.fileno())
            self.channel = self._link.helper
            request = {"confinement": confinement.to_json(), "command": list(command)}
            self._link.channel.sendall(wire.encode(request))
            event = _receive(self._link.channel, until)
        except BaseException:
            self.end()
            raise
        if event["event"] != "ready":
            said = self.last_line() or event.get("detail", "")
            self.end()
            raise LayersRefused(event["failed"]) if "failed" in event else OSError(said)
        self.report = IsolationReport(event["level"], event["layers"])
        self.pid: int = event["first"]

    def last_line(self) -> str:
        """Return the last line that it or its watcher printed."""
        said = os.pread(self._log.fileno(), _LOG_BYTES, 0).decode(errors="replace").strip()
        return said.splitlines()[-1] if said else ""

    def has_ended(self, seconds: float) -> bool:
        """Return whether it ends within that time, as the end of its channel tells."""
        if self.channel.fileno() < 0:
            return True
        ending = select.poll()
        ending.register(self.channel, select.POLLRDHUP)
        return bool(ending.poll(seconds * 1_000))

    def end(self) -> None:
        """Kill it with all that it started, and wait for that. Safe to call twice."""
        self._log.close()
        link, self._link = self._link, None
        if link is None:
            return
        link.helper.close()
        link.channel.close()
        # The watcher ends with its channel. If it does not, its child gets a signal from Linux.
        if not select.select([link.pidfd], [], [], _END_SECONDS)[0]:
            link.kill()
            select.select([link.pidfd], [], [], _END_SECONDS)
        os.close(link.pidfd)


def _open_link(log: int) -> WatcherLink:
    try:
        return shared_forkserver().open_for_program(log)
    except ForkserverFailed:
        # It may have died since the last one.
        try:
            return shared_forkserver().open_for_program(log)
        except ForkserverFailed as error:
            raise OSError(str(error)) from error


def _receive(channel: socket.socket, until: float) -> dict[str, Any]:
    header = _exactly(channel, wire.HEADER_SIZE, until)
    return wire.decode(_exactly(channel, wire.body_size(header), until))


def _exactly(channel: socket.socket, size: int, until: float) -> bytes:
    data = b""
    while len(data) < size:
        channel.settimeout(max(0.001, until - time.monotonic()))
        piece = channel.recv(size - len(data))
        if not piece:
            raise ConnectionResetError("its watcher ended")
        data += piece
    return data
