"""Assembles the kernel process: its sockets, shell, context, handle and helpers.

The context comes as three open files in one message on the helper channel. A cell can reach only the mapped
bytes. After the mapping no descriptor is left, because one could be used to change the file's mode or to open
it again.
"""

from __future__ import annotations

import asyncio
import logging
import os
import pdb
import random
import resource
import signal
import socket
import sys
import warnings
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

from IPython.core import debugger
from IPython.core.profiledir import ProfileDir
from traitlets.config import Config

from ..text.body import Body, BodyError
from . import wire
from .cell_kernel import CellKernel
from .cells import Cells
from .channel import Channel
from .handle import Handle
from .helpers import Helpers, ToolError, host_tool
from .registry import Helper
from .shell import CellShell

__all__ = ["prepare", "run", "withdraw"]

_FILES = 3
"""Body, index and manifest, in this order."""
_MAX_MESSAGE = 1 << 20
_FIRST = 1024
"""Bytes that are received together with the files."""


@contextmanager
def _block_import(package: str) -> Iterator[None]:
    """Make `package` impossible to import inside the block."""
    sys.modules[package] = None  # type: ignore[assignment]
    try:
        yield
    finally:
        del sys.modules[package]


# Cells are not debugged. Without debugpy, ipykernel skips its largest import.
with _block_import("debugpy"):
    import ipykernel.debugger  # noqa: F401


def prepare() -> CellKernel:
    """Return the kernel with its shell, still without socket, folder, thread and event loop.

    It is created once per process: a forkserver calls this for all kernels.
    """
    if CellKernel.initialized():
        kernel: CellKernel = CellKernel.instance()
        return kernel
    # IPython's advice after sys.exit() would end the kernel.
    warnings.filterwarnings("ignore", message="To exit: use 'exit'")
    # Its commands can be interrupted.
    pdb.Pdb, pdb.set_trace = debugger.InterruptiblePdb, debugger.set_trace  # type: ignore[misc,assignment]
    config = Config()
    config.HistoryManager.enabled = False
    config.Completer.use_jedi = False
    config.InteractiveShell.cache_size = 0
    config.InteractiveShell.enable_tip = False
    config.InteractiveShell.colors = "nocolor"
    # No pause after each cell: its output is in the reply.
    config.Kernel._execute_sleep = 0.0
    log = logging.getLogger("kernel")
    # ipykernel would make a record of each step of a cell.
    log.setLevel(logging.CRITICAL)
    # It creates its folders once its location is set.
    kernel = CellKernel.instance(config=config, log=log, profile_dir=ProfileDir())
    kernel.shell.rehearse()
    kernel.shell.user_ns_hidden.update(kernel.shell.user_ns)
    return kernel


def run(helper: socket.socket, cells: socket.socket, key: bytes) -> None:
    """Serve cells until the watcher or the driver goes away.

    Cells come and go on `cells`, as Jupyter's messages signed with `key`. The context arrives over `helper`
    before the first cell, so that a kernel can be started before it is known.
    """
    # Between cells an interrupt is lost. asyncio leaves a signal alone that is ignored.
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    kernel = prepare()
    kernel.shell.settle()
    assert kernel.profile_dir is not None
    kernel.profile_dir.location = f"{kernel.shell.ipython_dir}/profile_default"
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.close(quiet)
    # From here on it answers: everything above is done.
    asyncio.run(_serve(kernel, helper, cells, key))


async def _serve(kernel: CellKernel, helper: socket.socket, cells: socket.socket, key: bytes) -> None:
    loop = asyncio.get_running_loop()

    def attach() -> None:
        loop.remove_reader(helper)
        attach_context(kernel.shell, helper)

    loop.add_reader(helper, attach)
    await kernel.serve(cells, key)


def attach_context(shell: CellShell, channel: socket.socket) -> None:
    """Receive the context, put the handle, the helpers and the host tools into the shell, and confirm.

    The driver sends nothing until it has the confirmation. If the driver goes away, the process ends.
    """
    data, descriptors, _, _ = socket.recv_fds(channel, _FIRST, _FILES)
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
        tools = [Helper(*tool) for tool in message["tools"]]
        _furnish(shell, Channel(channel), text, tools, shared=message["shared"] is True)
        channel.sendall(wire.encode({"attached": True}))
    except (BodyError, wire.WireError, OSError, ValueError) as error:
        channel.sendall(wire.encode({"attached": False, "detail": str(error)}))


def _furnish(shell: CellShell, channel: Channel, body: Body, tools: list[Helper], *, shared: bool) -> None:
    """Fill the namespace of cells. If `shared`, several questions use the kernel, each over its own part of
    the body."""
    namespace = shell.user_ns
    handle = Handle(
        body,
        plan=lambda: channel.call("progress", {})[0]["plan"],
        chunk_chars=lambda: int(channel.call("chunk_chars", {})[0]),
    )
    names: dict[str, Any] = {}
    cells = Cells(channel, handle, namespace, names, shared=shared)
    helpers = Helpers(handle, channel, namespace, cells.watch.variables, cells.outputs)
    names |= {**helpers.namespace(), "helpers": helpers}
    for tool in tools:
        names[tool.name] = host_tool(tool, channel)
        setattr(helpers, tool.name, names[tool.name])
    if tools:
        names["ToolError"] = ToolError
    namespace.update(names)
    shell.kernel.cells = cells


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
