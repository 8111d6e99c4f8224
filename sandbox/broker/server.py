"""The broker's loop: frames of the driver in, frames of results out."""

from __future__ import annotations

import asyncio
import os
import queue
import shutil
import signal
import socket
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from jupyter_client.asynchronous.client import AsyncKernelClient
from jupyter_client.kernelspec import KernelSpec
from jupyter_client.manager import AsyncKernelManager

from sandbox.errors import KernelStartError
from sandbox.in_kernel import wire
from sandbox.isolation.policy import Confinement
from sandbox.outputs import OutputCollector, error_of
from sandbox.provisioner import ConfinedProvisioner, LayerRefused

__all__ = ["BrokerServer"]

_DRAIN_SECONDS = 1.0
_POLL_SECONDS = 0.005
_HEAR_SECONDS = 0.1


class BrokerServer:
    """Serves one kernel. Ends, with everything it started and every file it made, when the driver goes."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._folder: Path | None = None
        self._manager: AsyncKernelManager | None = None
        self._client: AsyncKernelClient | None = None
        self._provisioner: ConfinedProvisioner | None = None
        self._tasks: set[asyncio.Task[None]] = set()

    async def serve(self) -> None:
        """Until the driver closes its end."""
        self._channel.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._channel)
        try:
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                message = wire.decode(await reader.readexactly(wire.body_size(header)))
                await self._obey(message)
        except (asyncio.IncompleteReadError, ConnectionError, wire.WireError):
            return
        finally:
            await self._end()

    async def _obey(self, message: dict[str, Any]) -> None:
        match message.get("op"):
            case "start":
                await self._start(message)
            case "execute":
                self._begin(self._execute(int(message["id"]), str(message["code"]), int(message["round"])))
            case "interrupt":
                await self._interrupt()
            case "kill" if self._provisioner is not None:
                await self._provisioner.kill()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _start(self, message: dict[str, Any]) -> None:
        began = time.monotonic()
        confinement = Confinement.from_json(message["confinement"])
        self._folder = Path(message["folder"])
        try:
            report = await asyncio.wait_for(
                self._launch(confinement, list(message["command"])), float(message["start_seconds"])
            )
        except LayerRefused as error:
            await self._say({"event": "refused", "failed": error.failed})
        except TimeoutError:
            await self._say({"event": "failed", "detail": f"no answer in {message['start_seconds']} s"})
        except (KernelStartError, OSError) as error:
            await self._say({"event": "failed", "detail": str(error)})
        else:
            await self._say(
                {
                    "event": "started",
                    "level": report.level,
                    "layers": dict(report.layers),
                    "seconds": time.monotonic() - began,
                }
            )

    async def _launch(self, confinement: Confinement, command: list[str]) -> Any:
        folder = self._folder
        assert folder is not None
        connection_file = folder / "k.json"
        manager = self._manager = AsyncKernelManager(transport="ipc", connection_file=str(connection_file))
        manager.ip = str(folder / "s")
        spec = KernelSpec(argv=command, display_name="rlm", language="python", interrupt_mode="signal")
        manager._kernel_spec = spec
        provisioner = ConfinedProvisioner(kernel_id="rlm", kernel_spec=spec, parent=manager)
        provisioner.configure(confinement, folder / "kernel.log")
        manager.provisioner = self._provisioner = provisioner
        try:
            await manager.start_kernel()
        finally:
            # The kernel has its end of the helper channel now; ours would keep it open for ever.
            for descriptor in confinement.keep_fds:
                os.close(descriptor)
        self._begin(self._watch())
        ports = (manager.shell_port, manager.iopub_port, manager.control_port)
        sockets = [Path(f"{manager.ip}-{port}") for port in ports]
        while not all(map(Path.exists, sockets)):
            if await provisioner.poll() is not None:
                raise KernelStartError(provisioner.complaint() or "the kernel's interpreter ended at once")
            await asyncio.sleep(_POLL_SECONDS)
        client = self._client = manager.client()
        client.start_channels(stdin=False, hb=False)
        heard = False
        while not heard:
            asked = client.kernel_info()
            while (await client.get_shell_msg())["parent_header"].get("msg_id") != asked:
                pass
            # The kernel answers before it knows that we listen to its output: a first cell's would be lost.
            with suppress(queue.Empty):
                await client.get_iopub_msg(timeout=_HEAR_SECONDS)
                heard = True
        provisioner.pin()
        return provisioner.report

    async def _watch(self) -> None:
        """Tell the driver once when the kernel ends by itself."""
        assert self._provisioner is not None
        status = await self._provisioner.wait()
        with suppress(ConnectionError):
            await self._say({"event": "died", "detail": _words(status)})

    async def _execute(self, number: int, code: str, round_: int) -> None:
        client = self._client
        assert client is not None
        began = time.monotonic()
        content = {
            "code": code,
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            # A cell may be waiting behind one that was just interrupted: it must not be thrown away with it.
            "stop_on_error": False,
        }
        # The cell's id tells the kernel which round it is.
        message = client.session.msg("execute_request", content, metadata={"cellId": str(round_)})
        client.shell_channel.send(message)
        request = message["header"]["msg_id"]
        outputs = OutputCollector()
        listening = asyncio.get_running_loop().create_task(self._listen(request, outputs))
        try:
            reply = await self._shell_reply(request)
            with suppress(TimeoutError):
                await asyncio.wait_for(asyncio.shield(listening), _DRAIN_SECONDS)
        finally:
            listening.cancel()
        await self._say(
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

    async def _shell_reply(self, request: str) -> dict[str, Any]:
        assert self._client is not None
        while True:
            message = await self._client.get_shell_msg()
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == "execute_reply":
                content = message["content"]
                return content if isinstance(content, dict) else {}

    async def _listen(self, request: str, outputs: OutputCollector) -> None:
        assert self._client is not None
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

    async def _interrupt(self) -> None:
        if self._provisioner is None or self._client is None:
            return
        await self._provisioner.send_signal(signal.SIGINT)
        # A top-level await only notices once a message arrives on the shell channel.
        self._client.kernel_info()

    async def _say(self, message: dict[str, Any]) -> None:
        self._writer.write(wire.encode(message))
        await self._writer.drain()

    async def _end(self) -> None:
        for task in list(self._tasks):
            task.cancel()
        if self._client is not None:
            self._client.stop_channels()
        if self._provisioner is not None and self._provisioner.has_process:
            await self._provisioner.kill()
            await self._provisioner.wait()
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
        self._writer.close()


def _words(status: int | None) -> str:
    if status is None or status == 0:
        return "it ended by itself"
    if status in (137, -signal.SIGKILL):
        return "it was killed (out of memory, or from outside)"
    if status > 128:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(status - 128).name}"
    return f"it ended with status {status}"
