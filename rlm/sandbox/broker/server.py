"""The broker's loop: talks to the kernel by Jupyter's protocol and to the driver by JSON."""

from __future__ import annotations

import asyncio
import os
import socket
import time
from contextlib import suppress
from typing import Any

import zmq
from jupyter_client.asynchronous.client import AsyncKernelClient

from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.filters import allowlist
from rlm.sandbox.isolation.filters.worker import job_program
from rlm.sandbox.launch.outputs import outcome_of

__all__ = ["BrokerServer"]

_RECONNECT_MILLISECONDS = 2
_MAX_MESSAGE = 16 * 2**20
"""Bytes of one part of a message from the kernel. libzmq drops the connection of one that announces more."""


class BrokerServer:
    """Serves one kernel, whose sockets are in the current folder."""

    def __init__(self, channel: socket.socket) -> None:
        self._channel = channel
        self._tasks: set[asyncio.Task[None]] = set()
        self._turn = asyncio.Lock()

    async def serve(self) -> None:
        """Serve until the driver closes its end."""
        self._channel.setblocking(False)
        reader, self._writer = await asyncio.open_connection(sock=self._channel)
        with suppress(asyncio.IncompleteReadError, ConnectionError, wire.WireError):
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                await self._handle(wire.decode(await reader.readexactly(wire.body_size(header))))
        # There is nothing to clean up here: the supervisor ends the kernel.
        os._exit(0)

    async def _handle(self, message: dict[str, Any]) -> None:
        match message.get("op"):
            case "connect":
                self._begin(self._connect(message["connection"], is_confined=message["is_confined"]))
            case "execute":
                self._begin(self._execute(int(message["id"]), str(message["code"]), int(message["round"])))
            case "wake":
                # A top-level await notices a signal only when a message arrives on the shell channel.
                self._client.kernel_info()

    def _begin(self, work: Any) -> None:
        task = asyncio.get_running_loop().create_task(work)
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _connect(self, connection: Any, *, is_confined: bool) -> None:
        """Connect to the kernel, and give up the right to connect: the first cell has not run yet."""
        client = self._client = AsyncKernelClient()
        client.load_connection_info(connection)
        # The kernel binds its socket some time after the client connects: retry quickly.
        client.context.setsockopt(zmq.RECONNECT_IVL, _RECONNECT_MILLISECONDS)
        client.context.setsockopt(zmq.MAXMSGSIZE, _MAX_MESSAGE)
        # Only the channel of cells: the kernel publishes nothing, and a reply holds all that a cell gave.
        client.start_channels(iopub=False, stdin=False, hb=False, control=False)
        # An answer proves that the kernel is ready.
        request = client.kernel_info()
        await self._shell_reply(request, "kernel_info_reply")
        os.chdir("/")
        if is_confined:
            allowlist.install(job_program("connected_broker"))
        await self._send({"event": "connected"})

    async def _execute(self, number: int, code: str, round_: int) -> None:
        # The driver may send a cell while the last one is still stopping. Two readers at a time would take
        # each other's messages.
        async with self._turn:
            await self._run_cell(number, code, round_)

    async def _run_cell(self, number: int, code: str, round_: int) -> None:
        client = self._client
        began = time.monotonic()
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
        reply = await self._shell_reply(request, "execute_reply")
        await self._send(
            {
                "event": "result",
                "id": number,
                "seconds": time.monotonic() - began,
                **outcome_of(reply),
            }
        )

    async def _shell_reply(self, request: str, type_: str) -> dict[str, Any]:
        while True:
            message = await self._client.get_shell_msg()
            if message["parent_header"].get("msg_id") == request and message["msg_type"] == type_:
                content = message["content"]
                return content if isinstance(content, dict) else {}

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(wire.encode(message))
        await self._writer.drain()
