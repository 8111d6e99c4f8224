"""The life of a supervisor: read the start request, launch the kernel with one thread, then serve."""

from __future__ import annotations

import asyncio
import os
import resource
import signal
import socket
from collections.abc import Mapping
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from rlm.sandbox.folders.removal import remove
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.policy import Confinement
from rlm.sandbox.launch.provisioner import Launch
from rlm.sandbox.supervisor.server import SupervisorServer

__all__ = ["StartRequest", "run"]


@dataclass(frozen=True, slots=True)
class StartRequest:
    """The driver's first message.

    `folder` belongs to this kernel alone. Its subfolder `run` is for the sockets, so its path is short
    enough for a socket's name. `package` is where the kernel sees its code. `connection` is Jupyter's.
    """

    folder: Path
    package: str
    confinement: Confinement
    connection: Mapping[str, Any]

    @classmethod
    def of(cls, message: dict[str, Any]) -> StartRequest:
        """Return the request of a decoded message. Raises KeyError if it is another message."""
        return cls(
            Path(message["folder"]),
            message["package"],
            Confinement.from_json(message["confinement"]),
            message["connection"],
        )


def run(channel: socket.socket, helper: int, launch: Launch) -> None:
    """Supervise one kernel until the driver closes its end of `channel`.

    `helper` is the kernel's end of the helper channel; it is passed on and closed here. This process must
    have no other thread.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    channel.setblocking(True)
    try:
        request = StartRequest.of(_receive(channel))
    except EOFError:
        return
    server = SupervisorServer(channel, request.folder / "run")
    confinement = replace(request.confinement, keep_fds=(helper,))
    server.launch(launch, confinement, request.connection, request.package)
    # Kept open here, the helper channel would never end.
    os.close(helper)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    asyncio.run(server.serve())
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
