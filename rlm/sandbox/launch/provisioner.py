"""Launches a kernel, checks its confinement before the first cell, and ends it. Runs in the broker."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import socket
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.isolation.cell_guard import BEGIN, DONE, END
from rlm.sandbox.isolation.policy import Confinement, IsolationReport
from rlm.sandbox.isolation.report import read_report
from rlm.sandbox.launch.readiness import readable

__all__ = ["ConfinedProvisioner", "Launch", "Launched", "LayerRefused", "run_kernel"]

_LOG_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Launched:
    """The launcher: a child of this process that watches the kernel and exits with its status.

    It writes the layers to `report`, line by line, and closes it when the kernel is confined. On `cells` it
    is told when a cell begins and ends. `program` is set if it was started as a program.
    """

    pid: int
    report: int
    cells: socket.socket
    program: subprocess.Popen[bytes] | None = None

    def reap(self) -> int:
        """Return its exit status, as subprocess does. It must have ended."""
        if self.program is not None:
            return self.program.wait()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


Launch = Callable[[Confinement, Mapping[str, Any], str, Path], Launched]
"""Takes the confinement, the kernel's configuration, the folder of its code as the kernel sees it, and the
file for its stderr. Called before this process has a second thread."""


def run_kernel(confinement: Confinement, config: Mapping[str, Any], package: str, log: Path) -> Launched:
    """Start a kernel as a program, through the launcher that confines it. Works everywhere."""
    reading, writing = os.pipe()
    cells, cells_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    confinement = replace(confinement, cells_fd=cells_theirs.fileno())
    try:
        with cells_theirs, log.open("ab") as complaints:
            program = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-m", "rlm.sandbox.isolation.launcher"),
                    *(confinement.to_json(), str(writing), "--"),
                    # Not -I, which ignores PYTHONHASHSEED. The environment holds only our own variables.
                    *(sys.executable, "-s", "-P", f"{package}/launch.py", json.dumps(config)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env=dict(confinement.environment),
                pass_fds=(writing, *confinement.watcher_fds),
                start_new_session=True,
            )
    except BaseException:
        os.close(reading)
        cells.close()
        raise
    finally:
        os.close(writing)
    return Launched(program.pid, reading, cells, program)


class LayerRefused(KernelStartError):
    """This machine cannot provide a layer of the requested level. `failed` maps its name to the reason."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{layer}: {reason}" for layer, reason in failed.items()))
        self.failed = dict(failed)


class ConfinedProvisioner:
    """Holds one launched kernel. The launch must come before this process starts a thread."""

    def __init__(self, launched: Launched, confinement: Confinement, log: Path) -> None:
        """Take over a launched kernel. `log` holds its stderr until cells run."""
        self._launched: Launched | None = launched
        self._report_fd = launched.report
        self._confinement = confinement
        self._log = log
        self._status: int | None = None
        self._init: int | None = None
        self._cells = launched.cells
        self._cells.setblocking(False)
        self._stopped = asyncio.Event()
        self._kernel_pidfd: int | None = None
        self._report: IsolationReport | None = None

    @property
    def report(self) -> IsolationReport:
        """Return the layers that confine the kernel. Call after `wait_until_confined`."""
        assert self._report is not None
        return self._report

    async def wait_until_confined(self) -> None:
        """Wait until all layers are on. Otherwise kill the kernel and raise LayerRefused."""
        said = await _read_to_end(self._report_fd)
        self._report, self._init = read_report(self._confinement.level, said)
        if self._report.failed:
            self.kill()
            raise LayerRefused(self._report.failed)

    def pin(self) -> None:
        """Open a pidfd of the kernel's own process, before any cell runs."""
        # Interrupts go to this process. With namespaces, `_init` is process 1 of the kernel's namespace: it
        # ignores signals that it has no handler for, so an interrupt sent to it would be lost. The kernel
        # is its only child as long as no cell has run. A pidfd keeps meaning this process; its number
        # could be reused once a cell has ended it.
        pid = self._init
        if pid is not None and "namespaces" in self.report.layers:
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        if pid is not None:
            self._kernel_pidfd = os.pidfd_open(pid)

    def read_complaint(self) -> str:
        """Return the end of what the kernel's interpreter wrote to stderr before cells ran."""
        return self._log.read_text(errors="replace")[-_LOG_LIMIT:].strip() if self._log.exists() else ""

    @property
    def has_process(self) -> bool:
        """Return whether the launcher has not been reaped yet."""
        return self._launched is not None

    async def wait(self) -> int | None:
        """Wait until the launcher has ended. Return its status, as subprocess does."""
        if self._launched is None:
            return self._status
        pidfd = os.pidfd_open(self._launched.pid)
        try:
            await readable(pidfd)
        finally:
            os.close(pidfd)
        if self._launched is not None:
            self._status = self._launched.reap()
            self._launched = None
        if self._kernel_pidfd is not None:
            os.close(self._kernel_pidfd)
            self._kernel_pidfd = None
        self._close_cells()
        return self._status

    def begin_cell(self, on_computing: Callable[[float], None]) -> None:
        """Let the kernel compute. `on_computing` gets the seconds that it computed, from time to time."""
        if self._cells.fileno() >= 0:
            asyncio.get_running_loop().add_reader(self._cells, self._hear, on_computing)
            self._tell(BEGIN)

    async def end_cell(self) -> None:
        """Stop the kernel until the next cell, and kill the processes that the cell left."""
        if self._cells.fileno() >= 0:
            self._stopped.clear()
            self._tell(END)
            await self._stopped.wait()

    def _tell(self, word: bytes) -> None:
        with suppress(OSError):  # the watcher has ended: `_hear` notices
            self._cells.send(word)

    def _hear(self, on_computing: Callable[[float], None]) -> None:
        try:
            word = self._cells.recv(64)
        except BlockingIOError:
            return
        except OSError:
            word = b""
        if not word:
            self._close_cells()
        elif word == DONE:
            self._stopped.set()
        else:
            on_computing(float(word))

    def _close_cells(self) -> None:
        if self._cells.fileno() >= 0:
            asyncio.get_running_loop().remove_reader(self._cells)
            self._cells.close()
        self._stopped.set()

    def interrupt(self) -> None:
        """Interrupt the kernel as Ctrl-C does. Call after `pin`."""
        if self._kernel_pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._kernel_pidfd, signal.SIGINT)

    def kill(self) -> None:
        """Kill the kernel and all that it started. Call `wait` afterwards."""
        if self._launched is None:
            return
        # Two signals, because no single process owns everything. SIGKILL to `_init` ends the kernel and, with
        # namespaces, every process in them. SIGTERM to the launcher, which stays outside, has it end the
        # rest: left-over processes at levels 0 and 1, and the cgroup. The scratch needs nothing more: it is
        # a tmpfs of the kernel's namespace, or in the folder that the broker removes.
        for pid, number in ((self._init, signal.SIGKILL), (self._launched.pid, signal.SIGTERM)):
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)


async def _read_to_end(descriptor: int) -> bytes:
    loop = asyncio.get_running_loop()
    reader = asyncio.StreamReader()
    transport, _ = await loop.connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), os.fdopen(descriptor, "rb")
    )
    try:
        return await reader.read()
    finally:
        transport.close()
