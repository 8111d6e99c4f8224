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

from . import wire
from .body import Body, BodyError

FILES = 3
"""Body, index and manifest, in this order."""
_MAX_MESSAGE = 1024


def attach_context(channel: socket.socket, furnish: Callable[[Body], None]) -> None:
    """Take the context that waits on `channel`, hand it to `furnish`, and tell the driver. The driver sends
    nothing further until it has been told. Its going away ends the process."""
    data, descriptors, _, _ = socket.recv_fds(channel, _MAX_MESSAGE, FILES)
    if not data:
        os._exit(0)
    try:
        message = wire.decode(data[wire.HEADER_SIZE :])
        body, index, manifest = descriptors
        text = Body.open_descriptors(body, index, manifest)
        withdraw(descriptors)
        _lower_addresses(int(message["address_bytes"]))
        if message["seed"] is not None:
            random.seed(message["seed"])
        if message.get("window") is not None:
            text = text.window(*message["window"])
        furnish(text)
        channel.sendall(wire.encode({"attached": True}))
    except (BodyError, OSError, ValueError) as error:
        channel.sendall(wire.encode({"attached": False, "detail": str(error)}))


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
