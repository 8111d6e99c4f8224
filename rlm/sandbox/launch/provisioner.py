"""How a kernel is launched here, confined before its first cell, and held: as a program or by a fork."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.isolation.policy import Confinement, IsolationReport
from rlm.sandbox.isolation.report import read_report
from rlm.sandbox.launch.readiness import readable

__all__ = ["ConfinedProvisioner", "Launch", "Launched", "LayerRefused", "run_kernel"]

_LOG_LIMIT = 2_000


@dataclass(frozen=True, slots=True)
class Launched:
    """The launcher: a child of this process that watches over the kernel and ends as that does. What confines
    the kernel is told, line by line, on `report`, which ends when it is confined. `program` is set where it
    was started as one."""

    pid: int
    report: int
    program: subprocess.Popen[bytes] | None = None

    def reap(self) -> int:
        """Its exit status, as of subprocess. It must have ended."""
        if self.program is not None:
            return self.program.wait()
        return os.waitstatus_to_exitcode(os.waitpid(self.pid, 0)[1])


Launch = Callable[[Confinement, Mapping[str, Any], str, Path], Launched]
"""Takes how the kernel is held, its configuration, the folder of its code as it will see it, and the file
for its complaints. Called before this process has a second thread."""


def run_kernel(confinement: Confinement, config: Mapping[str, Any], package: str, log: Path) -> Launched:
    """Start a kernel as a program of its own, by the launcher that confines it. Works everywhere."""
    reading, writing = os.pipe()
    try:
        with log.open("ab") as complaints:
            program = subprocess.Popen(
                [
                    *(sys.executable, "-I", "-m", "rlm.sandbox.isolation.launcher"),
                    *(confinement.to_json(), str(writing), "--"),
                    # Not -I: it would have the seed of hashes ignored. The environment is all ours.
                    *(sys.executable, "-s", "-P", f"{package}/launch.py", json.dumps(config)),
                ],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=complaints,
                env=dict(confinement.environment),
                pass_fds=(writing, *confinement.keep_fds),
                start_new_session=True,
            )
    except BaseException:
        os.close(reading)
        raise
    finally:
        os.close(writing)
    return Launched(program.pid, reading, program)


class LayerRefused(KernelStartError):
    """A layer of the asked level can't be had on this machine. `failed` maps its name to the reason."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{layer}: {reason}" for layer, reason in failed.items()))
        self.failed = dict(failed)


class ConfinedProvisioner:
    """Holds one kernel, which has been launched: before anything here starts a thread."""

    def __init__(self, launched: Launched, confinement: Confinement, log: Path) -> None:
        """The kernel, how it is to be held, and the file that takes its complaints until cells run."""
        self._launched: Launched | None = launched
        self._report_fd = launched.report
        self._confinement = confinement
        self._log = log
        self._status: int | None = None
        self._init: int | None = None
        self._kernel_pidfd: int | None = None
        self._report: IsolationReport | None = None

    @property
    def report(self) -> IsolationReport:
        """What really holds the kernel. Only after `confined`."""
        assert self._report is not None
        return self._report

    async def confined(self) -> None:
        """Until all layers are on. Raises LayerRefused when one can't be had; the kernel is killed then."""
        said = await _read_to_end(self._report_fd)
        self._report, self._init = read_report(self._confinement.level, said)
        if self._report.failed:
            self.kill()
            raise LayerRefused(self._report.failed)

    def pin(self) -> None:
        """Take hold of the kernel's own process, before any cell runs. At level 2 it is the only child of
        the process that stands first in its namespace; `init` alone would swallow an interrupt."""
        pid = self._init
        if pid is not None and "namespaces" in self.report.layers:
            pid = int(Path(f"/proc/{pid}/task/{pid}/children").read_text().split()[0])
        if pid is not None:
            self._kernel_pidfd = os.pidfd_open(pid)

    def complaint(self) -> str:
        """The end of what the kernel's interpreter said before cells ran."""
        return self._log.read_text(errors="replace")[-_LOG_LIMIT:].strip() if self._log.exists() else ""

    @property
    def has_process(self) -> bool:
        return self._launched is not None

    async def wait(self) -> int | None:
        """Until it has ended; its status, as of subprocess."""
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
        return self._status

    def interrupt(self) -> None:
        """What Ctrl-C does. Only after `pin`."""
        if self._kernel_pidfd is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._kernel_pidfd, signal.SIGINT)

    def kill(self) -> None:
        """End the kernel and all it started: namespaces die with their first process, and the launcher that
        stays behind clears up the rest, which takes it no time that a caller would notice. Nothing outlives
        this: the scratch is a tmpfs of the kernel's, or a folder of the broker's."""
        if self._launched is None:
            return
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
