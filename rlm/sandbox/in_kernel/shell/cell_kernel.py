"""The kernel of cells: ipykernel on one thread, whose reply to a cell holds everything about it."""

from __future__ import annotations

import asyncio
import signal
import threading
from types import SimpleNamespace
from typing import Any

from ipykernel.ipkernel import IPythonKernel

from ..helper_api.helpers import Finalized
from .cells import Cells
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


class CellKernel(IPythonKernel):
    """ipykernel without debugger, history and subshells, and without a thread between a cell and its socket.

    Nothing is published while a cell runs. Its reply has the field `cell`: what the cell printed and
    displayed, and the report about it.
    """

    shell_class = CellShell
    implementation = "rlm"
    shell: CellShell
    cells: Cells | None = None

    @property
    def _supports_kernel_subshells(self) -> bool:
        return False

    def start(self) -> None:
        super().start()  # type: ignore[no-untyped-call]
        # A cell that awaits asks which thread may be interrupted.
        self.shell_channel_thread = SimpleNamespace(parent_thread=threading.main_thread())

    def _publish_status(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: nobody listens."""

    def _publish_execute_input(self, *args: Any, **kwargs: Any) -> None:
        """Do nothing: nobody listens."""

    async def do_execute(self, code: str, *args: Any, **kwargs: Any) -> dict[str, Any]:
        cells = self.cells
        try:
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
            record = cells.after()
            reply["cell"] = {
                "stdout": record.stdout,
                "stderr": record.stderr,
                "result": self.shell.displays.take(),
                "report": record.report,
            }
        return reply
