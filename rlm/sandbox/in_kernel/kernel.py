"""Assembles the kernel process: its sockets, shell, handle and helpers."""

from __future__ import annotations

import asyncio
import logging
import os
import pdb
import signal
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager

from IPython.core import debugger
from IPython.core.profiledir import ProfileDir
from traitlets.config import Config

from .attachment import Given, attach_context
from .cell_kernel import CellKernel
from .cells import Cells
from .channel import Channel
from .handle import Handle
from .helpers import Helpers
from .host_tools import ToolError, host_tool
from .shell import CellShell

__all__ = ["prepare", "run"]


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
        attach_context(helper, lambda given: furnish(kernel.shell, Channel(helper), given))

    loop.add_reader(helper, attach)
    await kernel.serve(cells, key)


def furnish(shell: CellShell, channel: Channel, given: Given) -> None:
    """Put the handle, the helpers and the host tools into the shell."""
    namespace = shell.user_ns
    handle = Handle(
        given.body,
        plan=lambda: channel.call("progress", {})[0]["plan"],
        chunk_chars=lambda: int(channel.call("chunk_chars", {})[0]),
    )
    cells = Cells(channel, handle, namespace, shared=given.shared)
    helpers = Helpers(handle, channel, namespace, cells.variables, cells.outputs)
    names = {**helpers.namespace(), "helpers": helpers}
    for tool in given.tools:
        names[tool.name] = host_tool(tool, channel)
        setattr(helpers, tool.name, names[tool.name])
    if given.tools:
        names["ToolError"] = ToolError
    namespace.update(names)
    cells.watch(names)
    shell.kernel.cells = cells
