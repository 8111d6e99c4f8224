"""The broker's loop: reads the driver's requests and sends results."""

from __future__ import annotations

import asyncio
import secrets
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.connect import write_connection_file

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.folders.removal import remove
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.filters.post_start import post_start_program
from rlm.sandbox.isolation.policy import Confinement, IsolationReport, required_layers
from rlm.sandbox.launch.outputs import OutputCollector, error_of
from rlm.sandbox.launch.provisioner import ConfinedProvisioner, Launch, LayerRefused

__all__ = ["BrokerServer"]

_DRAIN_SECONDS = 1.0
_RECONNECT_MILLISECONDS = 2


class BrokerServer:
    """Serves one kernel, whose connection file and sockets are in `folder`.

    When the driver goes away, it ends everything that it started and removes its files.
    """

    def __init__(self, channel: socket.socket, folder: Path) -> None:
        self._channel = channel
        self._folder = folder
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()
        self._has_cell = False

    def launch(self, launch: Launch, confinement: Confinement, package: str) -> None:
        """Start the kernel's process. Call before `serve`, without an event loop."""
        connection_file, info = write_connection_file(
            str(self._folder / "k.json"),
            transport="ipc",
            ip=str(self._folder / "s"),
            key=secrets.token_hex(32).encode(),
        )
        (helper,) = confinement.keep_fds
        config = {"connection_file": connection_file, "channel_fd": helper}
        if "late_seccomp" in required_layers(confinement.level):
            config["post_start_seccomp"] = post_start_program(confinement.level).hex()
        log = self._folder / "kernel.log"
        launched = launch(confinement, config, package, log)
        self._provisioner = ConfinedProvisioner(launched, confinement, log)
        # The Jupyter client is created while the kernel starts.
        client = self._client = AsyncKernelClient(connection_file=connection_file)
        client.load_connection_info(info)
        # The kernel binds its sockets some time after the client connects: retry quickly.
        client.context.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)

    async def serve(self, start_seconds: float) -> None:
        """Serve until the driver closes its end. The kernel must answer within `start_seconds`."""
        self._channel.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._channel)
        self._begin(self._start(start_seconds))
        try:
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                message = wire.decode(await reader.readexactly(wire.body_size(header)))
                await self._handle(message)
        except (asyncio.IncompleteReadError, ConnectionError, wire.WireError):
            return
        finally:
            await self._end()

    async def _handle(self, message: dict[str, Any]) -> None:
        match message.get("op"):
            case "execute":
                self._begin(self._execute(int(message["id"]), str(message["code"]), int(message["round"])))
            case "interrupt":
                self._interrupt()
            case "kill":
                self._provisioner.kill()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, seconds: float) -> None:
        began = time.monotonic()
        try:
            report = await asyncio.wait_for(self._connect(), seconds)
        except LayerRefused as error:
            await self._send({"event": "refused", "failed": error.failed})
        except TimeoutError:
            await self._send({"event": "failed", "detail": f"no answer in {seconds:g} s"})
        except (KernelStartError, OSError) as error:
            await self._send({"event": "failed", "detail": str(error)})
        else:
            await self._send(
                {
                    "event": "started",
                    "level": report.level,
                    "layers": dict(report.layers),
                    "seconds": time.monotonic() - began,
                }
            )

    async def _connect(self) -> IsolationReport:
        provisioner = self._provisioner
        await provisioner.wait_until_confined()
        welcomed = asyncio.ensure_future(self._wait_for_welcome())
        ended = asyncio.ensure_future(provisioner.wait())
        try:
            await asyncio.wait((welcomed, ended), return_when=asyncio.FIRST_COMPLETED)
            if not welcomed.done():
                raise KernelStartError(
                    provisioner.read_complaint() or "the kernel's interpreter ended at once"
                )
            await welcomed
        finally:
            welcomed.cancel()
            ended.cancel()
        provisioner.pin()
        self._begin(self._watch())
        return provisioner.report

    async def _wait_for_welcome(self) -> None:
        """Wait until the kernel welcomes the subscriber to its output: it is then ready.

        Without a subscriber the first cell's output would be lost.
        """
        self._client.start_channels(stdin=False, hb=False)
        await self._client.get_iopub_msg()

    async def _watch(self) -> None:
        """Report to the driver, once, when the kernel ends by itself."""
        status = await self._provisioner.wait()
        with suppress(ConnectionError):
            await self._send({"event": "died", "detail": _describe_exit(status)})

    async def _execute(self, number: int, code: str, round_: int) -> None:
        # The driver may send a cell while the last one is still stopping. Two listeners at a time would
        # take each other's messages.
        async with self._turn:
            await self._run_cell(number, code, round_)

    async def _run_cell(self, number: int, code: str, round_: int) -> None:
        client = self._client
        began = time.monotonic()
        self._provisioner.begin_cell(self._report_computing)
        self._has_cell = True
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            # A cell may be queued behind one that was just interrupted: it must not be aborted with it.
            "stop_on_error": False,
        }
        # The cell's id is the number of the round.
        message = client.session.msg("execute_request", content, metadata={"cellId": str(round_)})
        client.shell_channel.send(message)
        request = message["header"]["msg_id"]
        outputs = OutputCollector()
        listening = asyncio.get_running_loop().create_task(self._listen(request, outputs))
        try:
            reply = await self._shell_reply(request)
            self._has_cell = False
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(listening), _DRAIN_SECONDS)
        finally:
            listening.cancel()
        await self._send(
            {
                "event": "result",
                "id": number,
                "ok": reply.get("status") == "ok",
                "stdout": outputs.stream("stdout"),
                "stderr": outputs.stream("stderr"),
                "result": outputs.result,
                "seconds": time.monotonic() - began,
                **error_of(reply),
            }
        )
        await self._provisioner.end_cell()

    def _report_computing(self, seconds: float) -> None:
        """Tell the driver what the kernel computed: its clock stands still while children are in flight."""
        if self._has_cell:
            self._begin(self._send({"event": "computing", "seconds": seconds}))

    async def _shell_reply(self, request: str) -> dict[str, Any]:
        while True:
            message = await self._client.get_shell_msg()
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "execute_reply":
                content = message["content"]
                return content if isinstance(content, dict) else {}

    async def _listen(self, request: str, outputs: OutputCollector) -> None:
        while True:
            message = await self._client.get_iopub_msg()
            if message["parent_header"].get("msg_id") != request:
                continue
            content = message["content"]
            if not isinstance(content, dict):
                continue
            if message["msg_type"] == "status" and content.get("execution_state") == "idle":
                return
            outputs.add(message["msg_type"], content)

    def _interrupt(self) -> None:
        if not self._has_cell:
            # The kernel is stopped: the signal would hit the next cell.
            return
        self._provisioner.interrupt()
        # A top-level await notices the signal only when a message arrives on the shell channel.
        self._client.kernel_info()

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(wire.encode(message))
        await self._writer.drain()

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._client.channels_running:
            self._client.stop_channels()
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
