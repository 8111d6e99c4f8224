"""Assembles the kernel process: shell, handle, helpers, and the work before and after each cell."""

from __future__ import annotations

import os
import socket
import sys
import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from ipykernel.control import ControlThread
from ipykernel.iostream import IOPubThread
from ipykernel.kernelapp import IPKernelApp
from ipykernel.shellchannel import ShellChannelThread
from IPython.core.profiledir import ProfileDir
from jupyter_client.session import Session, new_id
from tornado.ioloop import IOLoop
from traitlets.config import Config
from zmq.eventloop.zmqstream import ZMQStream

from .context_handle.handle import Handle
from .helper_api.channel import CallError, Channel
from .helper_api.dialects import DialectNames
from .helper_api.helpers import Helpers
from .helper_api.host_tools import HostTool, ToolError
from .shell import post_start_seccomp
from .shell.attachment import Given, attach_context
from .shell.output import STDERR_LIMIT, BoundedStream
from .shell.shell import CellKernel, CellShell
from .shell.variables import VariableWatch

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

MAX_OUTPUTS = 64
"""Rounds whose output `output_of` remembers. Older ones are dropped."""


class KernelApp(IPKernelApp):
    """ipykernel's application in two steps: `prepare` and `initialize`.

    A forkserver calls `prepare` once for all kernels; `initialize` runs in the kernel's own process. There
    is no pipe for the output of child processes, because it would need a TCP port.
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
        """Bind the sockets, start the threads and connect the prepared kernel."""
        self.session.session = new_id()
        self.session.pid = os.getpid()
        self.load_connection_file()
        self.init_poller()
        # The broker connects as another user id if the driver is root. The folder around this one is private.
        mask = os.umask(0)
        self.init_sockets()
        os.umask(mask)
        self.init_io()
        self.init_signal()
        self.init_kernel()
        self.shell.settle()
        self.profile_dir.location = f"{self.shell.ipython_dir}/profile_default"

    def init_control(self, context: Any) -> None:
        import zmq

        self.control_socket = context.socket(zmq.ROUTER)
        self.control_socket.linger = 1000
        self.control_port = self._bind_socket(self.control_socket, self.control_port)
        self.control_thread = ControlThread(daemon=True)
        self.shell_channel_thread = ShellChannelThread(context, daemon=True)

    def init_iopub(self, context: Any) -> None:
        import zmq

        socket_ = context.socket(zmq.XPUB)
        socket_.linger = 1000
        self.iopub_port = self._bind_socket(socket_, self.iopub_port)
        self.configure_tornado_logger()
        self.iopub_thread = IOPubThread(socket_, pipe=False, session=self.session)
        self.iopub_socket = self.iopub_thread.background_socket

    def init_kernel(self) -> None:
        """Connect the prepared kernel to its sockets and threads."""
        shell_stream = ZMQStream(self.shell_socket, self.shell_channel_thread.io_loop)
        self.shell_channel_thread.shell_stream = shell_stream
        self.control_thread.start()
        self.shell_channel_thread.start()
        kernel = self.kernel
        kernel.session = self.session
        kernel.control_stream = ZMQStream(self.control_socket, self.control_thread.io_loop)
        kernel.shell_stream = shell_stream
        kernel.control_thread = self.control_thread
        kernel.shell_channel_thread = self.shell_channel_thread
        kernel.iopub_thread = self.iopub_thread
        kernel.iopub_socket = self.iopub_socket
        kernel.stdin_socket = self.stdin_socket
        kernel.record_ports({f"{name}_port": port for name, port in self._ports.items()})
        publishers: tuple[Any, ...] = (self.shell.displayhook, self.shell.display_pub)
        for publisher in publishers:
            publisher.session = self.session
            publisher.pub_socket = self.iopub_socket
        self.displayhook.get_execution_count = lambda: kernel.execution_count


class Cells:
    """Works before and after each cell: bounds its output and reports to the driver what changed.

    In a shared kernel it asks the driver before each cell which part of the body the question covers.
    """

    def __init__(self, channel: Channel, handle: Handle, namespace: dict[str, Any], *, shared: bool) -> None:
        self.outputs: dict[int, str] = {}
        self._channel = channel
        self._handle = handle
        self._namespace = namespace
        self._code = ""
        self._round = 0
        self._ours: dict[str, Any] = {}
        self._watch = VariableWatch(namespace, {})
        self._stdout = BoundedStream(sys.stdout)
        self._stderr = BoundedStream(sys.stderr, STDERR_LIMIT)
        sys.stdout = self._stdout
        sys.stderr = self._stderr
        self._shared = shared
        self._question = 0

    def watch(self, ours: dict[str, Any]) -> None:
        """Treat the names in `ours` as helpers. Names bound so far are not user variables."""
        self._ours = ours
        self._watch = VariableWatch(self._namespace, ours)

    def variables(self) -> dict[str, str]:
        """Return the user's variables with their types."""
        return self._watch.variables()

    def before(self, info: Any) -> None:
        """Restore the helpers and start to collect output."""
        if self._shared:
            self._follow_question()
        for name, value in self._ours.items():
            # A cell may have deleted it (`%reset` deletes all).
            self._namespace.setdefault(name, value)
        self._namespace["helpers"] = self._ours["helpers"]
        self._code = info.raw_cell or ""
        cell_id = str(getattr(info, "cell_id", None) or "")
        self._round = int(cell_id) if cell_id.isdecimal() else self._round + 1
        self._stdout.begin()
        self._stderr.begin()

    def _follow_question(self) -> None:
        """Switch to the question that this cell belongs to."""
        try:
            view, _ = self._channel.call("view", {})
        except CallError:
            os._exit(0)
        if view["question"] != self._question:
            self._question = view["question"]
            self.outputs.clear()
            self._handle._show(view["chars"])

    def after(self, _: Any) -> None:
        """Keep the output of the cell and report to the driver."""
        self.outputs[self._round] = self._stdout.end()
        self._stderr.end()
        while len(self.outputs) > MAX_OUTPUTS:
            del self.outputs[next(iter(self.outputs))]
        read, scanned = self._handle.drain_access()
        changed, changed_count = self._watch.changes(self._code)
        report = {
            "read": read,
            "scanned": scanned,
            "changed": changed,
            "changed_count": changed_count,
            "rebound": self._watch.rebound(),
            "stdout_chars": self._stdout.written,
        }
        try:
            self._channel.call("cell_report", report)
        except CallError:
            # The driver has gone: the kernel ends with its channel.
            os._exit(0)


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
    # No pause after each cell: the broker waits for the end of the output itself.
    config.Kernel._execute_sleep = 0.0
    config.IPKernelApp.log_level = 50
    config.IPKernelApp.capture_fd_output = False
    app = KernelApp.instance(config=config)
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
    # Its welcome message to the subscriber means that everything above is done.
    app.iopub_thread.start()
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
        names[tool.name] = HostTool(tool, channel)
        setattr(helpers, tool.name, names[tool.name])
    if given.tools:
        names["ToolError"] = ToolError
    dialect = DialectNames(helpers, handle, namespace) if given.dialect != "own" else None
    if dialect is not None:
        names.update(dialect.namespace())
        namespace.update(dialect.variables())
    namespace.update(names)
    cells.watch(names)
    shell.events.register("pre_run_cell", cells.before)
    if dialect is not None:
        shell.events.register("pre_run_cell", dialect.before)
        shell.events.register("post_run_cell", dialect.after)
    shell.events.register("post_run_cell", cells.after)
