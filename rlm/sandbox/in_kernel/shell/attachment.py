"""How a context reaches a kernel: as three open files in one message on the helper channel.

Nothing of them can be reached by a cell but the mapped bytes. Once they are mapped, no descriptor is left:
one could be used to change the file's mode, or to open it again.
"""

from __future__ import annotations

import os
import random
import resource
import socket
from collections.abc import Callable, Iterable
from dataclasses import dataclass

from .. import wire
from ..body.body import Body, BodyError
from ..helper_api.registry import Helper

FILES = 3
"""Body, index and manifest, in this order."""
_MAX_MESSAGE = 1 << 20
_FIRST = 1024
"""Bytes that are taken together with the files."""


@dataclass(frozen=True, slots=True)
class Given:
    """What a kernel is given to work with. `shared`: several questions come to it, each over the beginning of
    the body that was there then."""

    body: Body
    tools: tuple[Helper, ...] = ()
    shared: bool = False


def attach_context(channel: socket.socket, furnish: Callable[[Given], None]) -> None:
    """Take the context that waits on `channel`, hand it to `furnish`, and tell the driver. The driver sends
    nothing further until it has been told. Its going away ends the process."""
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
    """The whole body of the frame that `data` begins."""
    size = wire.HEADER_SIZE + wire.body_size(data[: wire.HEADER_SIZE], _MAX_MESSAGE)
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data[wire.HEADER_SIZE :]


def withdraw(descriptors: Iterable[int]) -> None:
    """Close these descriptors and every other one of the same files: a mapping keeps one of its own, which
    it expects to be open, so that /dev/null takes its place."""
    files = {_identity(descriptor) for descriptor in descriptors}
    nothing = os.open(os.devnull, os.O_RDONLY | os.O_CLOEXEC)
    # There may be no /proc to list them.
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
