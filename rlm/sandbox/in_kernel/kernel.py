"""Assembles the kernel process: its socket, shell, handle and helpers."""

from __future__ import annotations

import atexit
import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import zmq
from ipykernel.kernelapp import IPKernelApp
from IPython.core.profiledir import ProfileDir
from jupyter_client.session import Session, new_id
from tornado.ioloop import IOLoop
from traitlets.config import Config
from zmq.eventloop.zmqstream import ZMQStream

from .context_handle.handle import Handle
from .helper_api.channel import Channel
from .helper_api.helpers import Helpers
from .helper_api.host_tools import ToolError, host_tool
from .shell import post_start_seccomp
from .shell.attachment import Given, attach_context
from .shell.cell_kernel import CellKernel
from .shell.cells import Cells
from .shell.shell import CellShell

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

LOG_NAME = "kernel.log"
"""The file next to the connection file to which the kernel's interpreter writes while it starts."""


class KernelApp(IPKernelApp):
    """ipykernel's application in two steps: `prepare` and `initialize`.

    A forkserver calls `prepare` once for all kernels; `initialize` runs in the kernel's own process. Of
    Jupyter's five sockets there is only the one for cells, and it is served on the main thread: a reply holds
    all that a cell gave, and interrupts are signals. There is no pipe for the output of child processes,
    because it would need a TCP port.
    """

    kernel_class = CellKernel
    shell: CellShell
    profile_dir: ProfileDir

    def prepare(self) -> None:
        """Create the kernel and its shell, still without connection, folder, thread and event loop."""
        self.init_pdb()
        # It creates its folders once its location is set.
        self.profile_dir = ProfileDir(parent=self)
        self.kernel = self.kernel_class.instance(
            parent=self, log=self.log, profile_dir=self.profile_dir, user_ns=self.user_ns
        )
        self.init_shell()
        self.shell.rehearse()
        self.shell.user_ns_hidden.update(self.shell.user_ns)
        self.session = Session(parent=self)

    def initialize(self, argv: Any = None) -> None:
        """Bind the socket and connect the prepared kernel."""
        self.session.session = new_id()
        self.session.pid = os.getpid()
        self.load_connection_file()
        self.init_poller()
        # The broker connects as another user id if the driver is root. The folder around this one is private.
        mask = os.umask(0)
        self.init_sockets()
        os.umask(mask)
        self.configure_tornado_logger()
        self.patch_io()
        self.init_signal()
        self.init_kernel()
        self.shell.settle()
        self.profile_dir.location = f"{self.shell.ipython_dir}/profile_default"

    def init_sockets(self) -> None:
        self.context = zmq.Context()
        atexit.register(self.close)
        self.shell_socket = self.context.socket(zmq.ROUTER)
        self.shell_socket.linger = 1000
        self.shell_socket.router_handover = 1
        self.shell_port = self._bind_socket(self.shell_socket, self.shell_port)

    def init_kernel(self) -> None:
        """Connect the prepared kernel to its socket."""
        self.kernel.session = self.session
        self.kernel.shell_stream = ZMQStream(self.shell_socket, IOLoop.current())


def prepare() -> KernelApp:
    """Return the application with its kernel and shell. Created once per process, or before the fork."""
    if KernelApp.initialized():
        return KernelApp.instance()
    # IPython's advice after sys.exit() would end the kernel.
    warnings.filterwarnings("ignore", message="To exit: use 'exit'")
    config = Config()
    config.HistoryManager.enabled = False
    config.Completer.use_jedi = False
    config.InteractiveShell.cache_size = 0
    config.InteractiveShell.enable_tip = False
    config.InteractiveShell.colors = "nocolor"
    # No pause after each cell: its output is in the reply.
    config.Kernel._execute_sleep = 0.0
    config.IPKernelApp.log_level = 50
    config.IPKernelApp.capture_fd_output = False
    app = KernelApp.instance(config=config)
    # ipykernel sets the level of its handlers only, and would make a record of each step of a cell.
    app.log.setLevel(config.IPKernelApp.log_level)
    app.prepare()
    return app


def run(connection_file: str, channel_socket: socket.socket, post_start: bytes = b"") -> None:
    """Serve cells until the broker or the driver goes away.

    `post_start` is the seccomp filter to apply once the sockets are bound; empty means none. The context
    arrives over the channel before the first cell, so that a kernel can be started before it is known.
    """
    app = prepare()
    app.connection_file = connection_file
    app.initialize()
    shell = app.shell
    loop = IOLoop.current()

    def attach(*_: object) -> None:
        loop.remove_handler(channel_socket)
        attach_context(channel_socket, lambda given: furnish(shell, Channel(channel_socket), given))

    loop.add_handler(channel_socket, attach, IOLoop.READ)
    quiet = os.open(os.devnull, os.O_WRONLY)
    os.dup2(quiet, 1)
    os.dup2(quiet, 2)
    os.close(quiet)
    _remove_files(Path(connection_file))
    if post_start:
        post_start_seccomp.wait_for_libzmq()
        post_start_seccomp.install(post_start)
    # From here on it answers the broker: everything above is done.
    app.start()


def _remove_files(connection_file: Path) -> None:
    """Remove the connection file and the log of the start: they are on the host's disk, and nobody reads them
    again."""
    for path in (connection_file, connection_file.with_name(LOG_NAME)):
        path.unlink(missing_ok=True)


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
