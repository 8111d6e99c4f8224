"""The life of a broker: read the start request, launch the kernel with one thread, then serve."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.sandbox.broker.server import BrokerServer
from rlm.sandbox.folders.removal import remove
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.policy import Confinement
from rlm.sandbox.launch.provisioner import Launch

__all__ = ["StartRequest", "run"]

_MEMORY = 512 * 2**20


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The driver's first message.

    `folder` belongs to this kernel alone. Its subfolder `run` is for the sockets, so its path is short
    enough for a socket's name. `package` is where the kernel sees its code.
    """

    folder: Path
    package: str
    confinement: Confinement
    seconds: float

    @classmethod
    def of(cls, message: dict[str, Any]) -> StartRequest:
        """Return the request of a decoded message. Raises KeyError if it is another message."""
        return cls(
            Path(message["folder"]),
            message["package"],
            Confinement.from_json(message["confinement"]),
            float(message["start_seconds"]),
        )


def run(channel: socket.socket, helper: int, launch: Launch) -> None:
    """Serve one kernel until the driver closes its end of `channel`.

    `helper` is the kernel's end of the helper channel; it is passed on and closed here. This process must
    have no other thread.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel.setblocking(True)
    try:
        request = StartRequest.of(_receive(channel))
    except EOFError:
        return
    server = BrokerServer(channel, request.folder / "run")
    server.launch(launch, replace(request.confinement, keep_fds=(helper,)), request.package)
    # Kept open here, the helper channel would never end.
    os.close(helper)
    # After the launch: the kernel has its own limits.
    _, hard = resource.getrlimit(resource.RLIMIT_DATA)
    resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, hard))
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asyncio.run(server.serve(request.seconds))
    # The driver has gone. If it was killed, no other process removes the folder.
    remove(request.folder)


def _receive(channel: socket.socket) -> dict[str, Any]:
    return wire.decode(_exactly(channel, wire.body_size(_exactly(channel, wire.HEADER_SIZE))))


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data
