"""The kernel of cells: ipykernel on one thread and one inherited socket. A reply holds all about its cell."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import threading
from collections.abc import Sequence
from types import SimpleNamespace
from typing import Any

from ipykernel.ipkernel import IPythonKernel
from jupyter_client.session import Session
from traitlets import Any as AnyTrait
from zmq import Frame

from . import wire
from .cells import Cells
from .helpers import Finalized
from .output import bounded
from .shell import MESSAGE_LIMIT, TRACEBACK_LIMIT, CellShell, cell_traceback

__all__ = ["CellKernel"]

_INTERRUPTED = {"status": "error", "ename": "KeyboardInterrupt", "evalue": "", "traceback": []}


def _failed(error: Exception) -> dict[str, Any]:
    """Return the reply to a cell that failed outside of its own code."""
    name = type(error).__name__
    trace = cell_traceback(type(error), error, error.__traceback__)
    return {
        "status": "error",
        "ename": name,
        "evalue": trace.rpartition(f"{name}: ")[2],
        "traceback": [trace],
    }


class CellStream:
    """What ipykernel and Session expect of a ZMQ stream. Sending blocks until all is written."""

    def __init__(self, cells: socket.socket) -> None:
        self._cells = cells

    def send_multipart(self, parts: Sequence[bytes], **_: Any) -> None:
        """Send a message as one frame."""
        self._cells.setblocking(True)
        try:
            self._cells.sendall(wire.pack_parts(parts))
        finally:
            self._cells.setblocking(False)

    def flush(self, *_: Any) -> None:
        """Do nothing: what was sent is written."""


class CellKernel(IPythonKernel):
    """ipykernel without debugger, history and subshells, and without a thread between a cell and its socket.

    Nothing is published while a cell runs. Its reply has the field `cell`: what the cell printed and
    displayed, and the report about it.
    """

    shell_class = CellShell
    implementation = "rlm"
    shell: CellShell
    cells: Cells | None = None
    shell_stream = AnyTrait()  # ipykernel would take a ZMQ stream only

    @property
    def _supports_kernel_subshells(self) -> bool:
        return False

    async def serve(self, cells: socket.socket, key: bytes) -> None:
        """Answer the messages on `cells`, one after another. The process ends with that socket."""
        loop = asyncio.get_running_loop()
        self.session = Session(key=key)
        self.shell_stream = CellStream(cells)
        # How a signal's handler wakes up the loop, for a cell that awaits.
        self.io_loop: Any = SimpleNamespace(add_callback=loop.call_soon_threadsafe)
        self.shell_channel_thread = SimpleNamespace(parent_thread=threading.main_thread())
        cells.setblocking(False)
        while True:
            size = wire.body_size(await _receive(cells, wire.HEADER_SIZE))
            parts = wire.split_parts(await _receive(cells, size))
            await self.dispatch_shell([Frame(part) for part in parts])

    def pre_handler_hook(self) -> None:
        """Do nothing. ipykernel's would let an interrupt hit its own code: that request has no reply."""

    def post_handler_hook(self) -> None:
        """Do nothing."""

    def _publish_status(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: nobody listens."""

    def _publish_execute_input(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: nobody listens."""

    async def do_execute(self, code: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        cells = self.cells
        try:
            signal.signal(signal.SIGINT, signal.default_int_handler)
            if cells is not None:
                cells.before(code, kwargs.get("cell_id"))
            reply: dict[str, Any] = await super().do_execute(code, *args, **kwargs)  # type: ignore[no-untyped-call]
            signal.signal(signal.SIGINT, signal.SIG_IGN)
        except (KeyboardInterrupt, asyncio.CancelledError):
            # It came before the cell began, or after it ended.
            signal.signal(signal.SIGINT, signal.SIG_IGN)
            reply = {**_INTERRUPTED}
        except Exception as error:
            # IPython compiles a cell outside of its own `try`, and reads the message of its error there: an
            # expression of 20,000 terms, or a message that raises. Without a reply the cell would hang.
            reply = _failed(error)
        if reply.get("ename") == Finalized.__name__:
            reply = {
                "status": "ok",
                "execution_count": reply.get("execution_count", 0),
                "payload": [],
                "user_expressions": {},
            }
        if "evalue" in reply:
            reply["evalue"] = bounded(reply["evalue"], MESSAGE_LIMIT)
            reply["traceback"] = [bounded(line, TRACEBACK_LIMIT) for line in reply["traceback"][:4]]
        if cells is not None:
            reply["cell"] = {**cells.after(), "result": self.shell.take_displays()}
        return reply


async def _receive(cells: socket.socket, size: int) -> bytes:
    """Receive exactly `size` bytes. If the watcher has gone, end this process."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(cells, size - len(data))
        if not piece:
            os._exit(0)
        data += piece
    return data
