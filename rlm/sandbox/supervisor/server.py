"""The supervisor's loop: reads the driver's requests and reports what becomes of the kernel."""

from __future__ import annotations

import asyncio
import json
import signal
import socket
from collections.abc import Coroutine, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.folders.removal import remove
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.filters.post_start import post_start_program
from rlm.sandbox.isolation.policy import Confinement, required_layers
from rlm.sandbox.launch.provisioner import ConfinedProvisioner, Launch, LayerRefused

__all__ = ["SupervisorServer"]


class SupervisorServer:
    """Supervises one kernel, whose connection file and sockets are in `folder`.

    When the driver goes away, it ends everything that it started and removes its files.
    """

    def __init__(self, channel: socket.socket, folder: Path) -> None:
        self._channel = channel
        self._folder = folder
        self._watching: asyncio.Task[None] | None = None
        self._has_cell = False
        self._cells: asyncio.Task[None] | None = None
        self._reports: set[asyncio.Task[None]] = set()

    def launch(
        self, launch: Launch, confinement: Confinement, connection: Mapping[str, Any], package: str
    ) -> None:
        """Start the kernel's process. Call before `serve`, without an event loop."""
        connection_file = self._folder / "k.json"
        connection_file.touch(0o600, exist_ok=False)
        connection_file.write_text(json.dumps(dict(connection)), "utf-8")
        (helper,) = confinement.keep_fds
        config = {"connection_file": str(connection_file), "channel_fd": helper}
        if "late_seccomp" in required_layers(confinement.level):
            config["post_start_seccomp"] = post_start_program(confinement.level).hex()
        log = self._folder / "kernel.log"
        self._provisioner = ConfinedProvisioner(launch(confinement, config, package, log), confinement, log)

    async def serve(self) -> None:
        """Serve until the driver closes its end."""
        self._channel.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._channel)
        self._watching = asyncio.get_running_loop().create_task(self._watch())
        try:
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                message = wire.decode(await reader.readexactly(wire.body_size(header)))
                match message.get("op"):
                    case "begin_cell":
                        self._has_cell = True
                        self._next(self._begin_cell())
                    case "end_cell":
                        self._has_cell = False
                        self._next(self._end_cell())
                    case "interrupt":
                        # Without a cell the kernel is stopped: the signal would hit the next one.
                        if self._has_cell:
                            self._provisioner.interrupt()
                            await self._send({"event": "interrupted"})
                    case "kill":
                        self._provisioner.kill()
        except (asyncio.IncompleteReadError, ConnectionError, wire.WireError):
            return
        finally:
            await self._end()

    def _next(self, work: Coroutine[Any, Any, None]) -> None:
        """Do `work` after what was begun before. Meanwhile, the driver may have the kernel killed."""
        before = self._cells

        async def in_turn() -> None:
            if before is not None:
                await before
            await work

        self._cells = asyncio.get_running_loop().create_task(in_turn())

    async def _begin_cell(self) -> None:
        self._provisioner.begin_cell(self._report_computing)

    async def _end_cell(self) -> None:
        await self._provisioner.end_cell()
        with suppress(ConnectionError):
            await self._send({"event": "ended"})

    def _report_computing(self, seconds: float) -> None:
        """Tell the driver what the kernel computed: its clock stands still while children are in flight."""
        if self._has_cell:
            task = asyncio.get_running_loop().create_task(
                self._send({"event": "computing", "seconds": seconds})
            )
            self._reports.add(task)
            task.add_done_callback(self._reports.discard)

    async def _watch(self) -> None:
        """Report to the driver how the start went and, once, when the kernel ends by itself."""
        provisioner = self._provisioner
        with suppress(ConnectionError):
            try:
                await provisioner.wait_until_confined()
                # No cell has run: the first one waits for this report.
                provisioner.pin()
            except LayerRefused as error:
                await self._send({"event": "refused", "failed": error.failed})
                return
            except (KernelStartError, OSError, IndexError) as error:
                await self._send({"event": "failed", "detail": provisioner.read_complaint() or str(error)})
                return
            report = provisioner.report
            await self._send({"event": "confined", "level": report.level, "layers": dict(report.layers)})
            status = await provisioner.wait()
            complaint = provisioner.read_complaint()
            await self._send({"event": "died", "detail": _describe_exit(status), "complaint": complaint})

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(wire.encode(message))
        await self._writer.drain()

    async def _end(self) -> None:
        if self._watching is not None:
            self._watching.cancel()
            await asyncio.gather(self._watching, return_exceptions=True)
        if self._provisioner.has_process:
            self._provisioner.kill()
            await self._provisioner.wait()
        remove(self._folder)
        self._writer.close()


def _describe_exit(status: int | None) -> str:
    if status is None or status == 0:
        return "it ended by itself"
    if status in (137, -signal.SIGKILL):
        return "it was killed (out of memory, or from outside)"
    if status > 128:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(status - 128).name}"
    return f"it ended with status {status}"
