"""How Jupyter launches a kernel here: through the launcher that confines it first."""

from __future__ import annotations

import asyncio
import os
import signal
import sys
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.connect import KernelConnectionInfo
from jupyter_client.provisioning.provisioner_base import KernelProvisionerBase

from sandbox.errors import KernelStartError
from sandbox.isolation.policy import Confinement, IsolationReport
from sandbox.isolation.report import judged

__all__ = ["ConfinedProvisioner", "LayerRefused"]

_LOG_LIMIT = 2_000


class LayerRefused(KernelStartError):
    """A layer of the asked level can't be had on this machine. `failed` maps its name to the reason."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{layer}: {reason}" for layer, reason in failed.items()))
        self.failed = dict(failed)


class ConfinedProvisioner(KernelProvisionerBase):
    """Launches one kernel. `configure` must be called first."""

    _confinement: Confinement
    _log: Path
    _process: asyncio.subprocess.Process | None = None
    _init: int | None = None
    _kernel_pidfd: int | None = None
    _report: IsolationReport | None = None

    def configure(self, confinement: Confinement, log: Path) -> None:
        """What to do at launch, and the file that takes the interpreter's own complaints until cells run."""
        self._confinement = confinement
        self._log = log

    @property
    def report(self) -> IsolationReport:
        """What really holds the kernel. Only after launch."""
        assert self._report is not None
        return self._report

    async def pre_launch(self, **kwargs: Any) -> dict[str, Any]:
        manager = self.parent
        assert manager is not None
        manager.write_connection_file()
        self.connection_info = manager.get_connection_info()
        return {"cmd": list(self.kernel_spec.argv), "env": dict(self._confinement.environment)}

    async def launch_kernel(self, cmd: list[str], **kwargs: Any) -> KernelConnectionInfo:
        reading, writing = os.pipe()
        with self._log.open("ab") as log:
            self._process = await asyncio.create_subprocess_exec(
                sys.executable,
                "-I",
                "-m",
                "sandbox.isolation.launcher",
                self._confinement.to_json(),
                str(writing),
                "--",
                *cmd,
                stdin=asyncio.subprocess.DEVNULL,
                stdout=asyncio.subprocess.DEVNULL,
                stderr=log,
                env=dict(self._confinement.environment),
                pass_fds=(writing, *self._confinement.keep_fds),
                start_new_session=True,
            )
        os.close(writing)
        self._report, self._init = judged(self._confinement.level, await _read_to_end(reading))
        if self._report.failed:
            await self.kill()
            raise LayerRefused(self._report.failed)
        return self.connection_info

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
        return self._process is not None

    async def poll(self) -> int | None:
        return self._process.returncode if self._process else 0

    async def wait(self) -> int | None:
        if self._process is None:
            return 0
        status = await self._process.wait()
        if self._kernel_pidfd is not None:
            os.close(self._kernel_pidfd)
            self._kernel_pidfd = None
        self._process = None
        return status

    async def send_signal(self, signum: int) -> None:
        if signum == signal.SIGKILL:
            await self.kill()
        elif self._kernel_pidfd is not None and signum:
            try:
                signal.pidfd_send_signal(self._kernel_pidfd, signum)
            except ProcessLookupError:
                return

    async def kill(self, restart: bool = False) -> None:
        """End the kernel and all it started: namespaces die with their first process, and the launcher that
        stays behind clears up the rest, which takes it no time that a caller would notice."""
        watcher = self._process.pid if self._process else None
        for pid, number in ((self._init, signal.SIGKILL), (watcher, signal.SIGTERM)):
            if pid is not None:
                with suppress(ProcessLookupError):
                    os.kill(pid, number)

    async def terminate(self, restart: bool = False) -> None:
        await self.kill(restart)

    async def cleanup(self, restart: bool = False) -> None:
        """Nothing outlives `kill`: the scratch is a tmpfs of the kernel's, or a folder of the broker's."""


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
