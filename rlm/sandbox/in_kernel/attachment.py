"""Receives the context of a kernel: three open files in one message on the helper channel.

A cell can reach only the mapped bytes. After the mapping no descriptor is left, because one could be used to
change the file's mode or to open it again.
"""

from __future__ import annotations

import os
import random
import resource
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from ..text.body import Body, BodyError
from . import wire
from .registry import Helper

FILES = 3
"""Body, index and manifest, in this order."""
_MAX_MESSAGE = 1 << 20
_FIRST = 1024
"""Bytes that are received together with the files."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a kernel works with. If `shared`, several questions use it, each over its own part of the body."""

    body: Body
    tools: tuple[Helper, ...] = ()
    shared: bool = False


def attach_context(channel: socket.socket, furnish: Callable[[Given], None]) -> None:
    """Receive the context from `channel`, pass it to `furnish` and confirm to the driver.

    The driver sends nothing until it has the confirmation. If the driver goes away, the process ends.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, _FIRST, FILES)
    if not data:
        os._exit(0)
    try:
        message = wire.decode(_rest(channel, data))
        body, index, manifest = descriptors
        text = Body.open_descriptors(body, index, manifest)
        withdraw(descriptors)
        _lower_addresses(int(message["address_bytes"]))
        if message["seed"] is not None:
            random.seed(message["seed"])
        if message.get("window") is not None:
            text = text.window(*message["window"])
        tools = tuple(Helper(*tool) for tool in message["tools"])
        furnish(Given(text, tools, shared=message["shared"] is True))
        channel.sendall(wire.encode({"attached": True}))
    except (BodyError, wire.WireError, OSError, ValueError) as error:
        channel.sendall(wire.encode({"attached": False, "detail": str(error)}))


def _rest(channel: socket.socket, data: bytes) -> bytes:
    """Receive the rest of the frame that `data` begins. Return its body."""
    size = wire.HEADER_SIZE + wire.body_size(data[: wire.HEADER_SIZE], _MAX_MESSAGE)
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data[wire.HEADER_SIZE :]


def withdraw(descriptors: Iterable[int]) -> None:
    """Close these descriptors and every other one of the same files.

    A mapping keeps its own descriptor, which must stay open: it is replaced by /dev/null.
    """
    files = {_identity(descriptor) for descriptor in descriptors}
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    # Without /proc they cannot be listed, so every number is tried.
    for descriptor in range(resource.getrlimit(resource.RLIMIT_NOFILE)[0]):
        try:
            if _identity(descriptor) in files:
                os.dup2(nothing, descriptor, inheritable=False)
        except OSError:
            continue
    for descriptor in (*descriptors, nothing):
        os.close(descriptor)


def _identity(descriptor: int) -> tuple[int, int]:
    status = os.fstat(descriptor)
    return status.st_dev, status.st_ino


def _lower_addresses(limit: int) -> None:
    _, hard = resource.getrlimit(resource.RLIMIT_AS)
    limit = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
    resource.setrlimit(resource.RLIMIT_AS, (limit, limit))
