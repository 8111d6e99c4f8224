"""The kernel's shell: IPython without noise, with every output bounded before it leaves the process."""

from __future__ import annotations

import linecache
import os
import subprocess
import sys
import traceback
from codecs import getincrementaldecoder
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from types import TracebackType
from typing import Any

from ipykernel.displayhook import ZMQShellDisplayHook
from ipykernel.zmqshell import ZMQDisplayPublisher, ZMQInteractiveShell
from IPython.core.formatters import DisplayFormatter
from IPython.lib.pretty import pretty
from IPython.paths import get_ipython_dir

from .helpers import Finalized
from .output import bounded

RESULT_LIMIT = 20_000
"""Characters of one value that is displayed, and of all that a cell displays."""
_MAX_DISPLAYS = 20
MESSAGE_LIMIT = 2_000
_SQLITE_CANNOT_LOCK = "sqlite3.OperationalError: access permission denied"
_SQLITE_REMEDY = (
    " (files cannot be locked here: use sqlite3.connect('file:NAME?nolock=1', uri=True), or ':memory:')"
)
TRACEBACK_LIMIT = 8_000
_PIPE_BYTES = 65_536
_EXIT = "exit() has no effect: the kernel and its variables stay. To end the run, call finalize(value)."


def result_text(value: Any) -> str:
    """Return the text that is shown for a cell's last expression."""
    if isinstance(value, (str, bytes)) and len(value) > RESULT_LIMIT:
        return f"{value[:RESULT_LIMIT]!r}… ({len(value):,} in all)"
    try:
        return bounded(pretty(value, max_width=100), RESULT_LIMIT)
    except Exception as error:
        # The value's own __repr__ may raise anything. The kernel must go on.
        return f"<{type(value).__name__} whose repr raised {type(error).__name__}>"


class CellFormatter(DisplayFormatter):
    """Formats as plain text only: the root reads nothing else."""

    def format(
        self, obj: Any, include: Any = None, exclude: Any = None
    ) -> tuple[dict[str, str], dict[str, Any]]:
        return {"text/plain": result_text(obj)}, {}


class CellDisplayHook(ZMQShellDisplayHook):
    """Keeps the value of a cell's last expression."""

    shell: Any

    def start_displayhook(self) -> None:
        # A message that is begun tells the shell that an error came from displaying.
        self.msg = {}

    def write_output_prompt(self) -> None:
        """Do nothing: no prompt is shown."""

    def write_format_data(self, format_dict: dict[str, Any], md_dict: Any = None) -> None:
        self.shell.add_display(format_dict)

    def finish_displayhook(self) -> None:
        self.msg = None


class CellDisplayPublisher(ZMQDisplayPublisher):
    """Keeps what a cell shows by `display`. There is no screen to update or to clear."""

    shell: Any

    def publish(
        self, data: Any, metadata: Any = None, source: Any = None, *, update: bool = False, **kwargs: Any
    ) -> None:
        if not update:
            self.shell.add_display(data)

    def clear_output(self, wait: bool = False) -> None:
        """Do nothing."""


class CellShell(ZMQInteractiveShell):
    """Shows only the cell's own frames in tracebacks. A finalized cell has no traceback."""

    displayhook_class = CellDisplayHook
    display_pub_class = CellDisplayPublisher
    displayhook: CellDisplayHook
    display_pub: CellDisplayPublisher
    history_manager: Any

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        self._displays: list[str] = []
        super().__init__(*args, **kwargs)

    def add_display(self, data: Mapping[str, Any]) -> None:
        """Add the plain text of a value to the reply to the cell. Its other forms are dropped: the root reads
        nothing else."""
        text = data.get("text/plain")
        if isinstance(text, str) and len(self._displays) < _MAX_DISPLAYS:
            self._displays.append(bounded(text, RESULT_LIMIT))

    def take_displays(self) -> str | None:
        """Return what the cell displayed, or None. The next cell begins with nothing."""
        texts, self._displays = self._displays, []
        return bounded("\n".join(texts), RESULT_LIMIT) if texts else None

    def init_ipython_dir(self, ipython_dir: Any = None) -> None:
        """Do nothing: `settle` sets the folder, since a shell may be created before the fork."""

    def rehearse(self) -> None:
        """Run an empty cell and remove its traces.

        The imports and the compiling of a first cell are then done, also for every fork of this process.
        """
        before = set(linecache.cache)
        self.run_cell("None", store_history=False, silent=True)
        for name in set(linecache.cache) - before:
            del linecache.cache[name]
        self.compile._filename_map.clear()
        self.last_execution_result = None

    def settle(self) -> None:
        """Switch to the folders and the environment of this process."""
        self.init_environment()
        self.ipython_dir = get_ipython_dir()
        self.starting_dir = str(Path.cwd())
        self.history_manager.dir_hist[:] = [self.starting_dir]

    def init_display_formatter(self) -> None:
        self.display_formatter = CellFormatter(parent=self)

    @contextmanager
    def _tee(self, channel: str) -> Iterator[None]:
        """Do nothing: IPython would keep an unbounded copy of the output for a history that is off."""
        yield

    def system_piped(self, cmd: str) -> None:
        """Run the command of a `!` line and print what it prints. There is no terminal for it."""
        if cmd.rstrip().endswith("&"):
            raise OSError("a `!` line cannot start a process in the background")
        try:
            process = subprocess.Popen(
                ["/bin/sh", "-c", self.var_expand(cmd, depth=1)],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.STDOUT,
            )
        except OSError as error:
            raise OSError(f"shell commands cannot run here ({error.strerror}). Use Python instead") from None
        with process:
            try:
                assert process.stdout is not None
                decoder = getincrementaldecoder("utf-8")("replace")
                while data := os.read(process.stdout.fileno(), _PIPE_BYTES):
                    sys.stdout.write(decoder.decode(data))
                code = process.wait()
            except BaseException:
                process.kill()
                raise
        self.user_ns["_exit_code"] = code
        if code:
            print(f"(exit code {code})")  # noqa: T201 - printing is how a cell speaks to the root

    system = system_piped

    def ask_exit(self) -> None:
        """Say what `exit()` does: nothing. The kernel must outlive the cell."""
        print(_EXIT)  # noqa: T201 - printing is how a cell speaks to the root

    def showtraceback(self, exc_tuple: Any = None, *args: Any, **kwargs: Any) -> None:
        etype, value, trace = self._get_exc_info(exc_tuple)
        if issubclass(etype, Finalized):
            self._last_traceback = []
            return
        self._showtraceback(etype, value, [cell_traceback(etype, value, trace)])

    def _showtraceback(self, etype: type[BaseException], evalue: BaseException, stb: list[str]) -> None:
        """Keep the traceback for the reply. IPython would also publish the message, however long."""
        self._last_traceback = stb
        if getattr(self.displayhook, "msg", None) is not None:
            self._last_traceback_during_displayhook = True

    def _format_exception_for_storage(self, *args: Any, **kwargs: Any) -> dict[str, Any]:
        """Return nothing: the history is off.

        IPython would format the traceback again, in colours. Its imports take 30 ms of the first cell that
        fails or finalizes.
        """
        return {}

    def showsyntaxtraceback(self, *args: Any, **kwargs: Any) -> None:
        self.showtraceback(*args, **kwargs)

    def showsyntaxerror(self, filename: Any = None, running_compiled_code: bool = False) -> None:
        self.showtraceback()

    def showindentationerror(self) -> None:
        self.showtraceback()


def cell_traceback(etype: type[BaseException], value: BaseException, trace: TracebackType | None) -> str:
    """Return the traceback without the frames of IPython and of our helpers."""
    try:
        frames = [frame for frame in traceback.extract_tb(trace) if _is_cell(frame.filename)]
        lines = []
        for frame in frames[-20:]:
            lines.append(f"  line {frame.lineno}, in {frame.name}\n    {bounded(frame.line or '', 300)}\n")
        if isinstance(value, SyntaxError) and value.text:
            lines.append(f"  line {value.lineno}\n    {bounded(value.text.strip(), 300)}\n")
        message = value.msg if isinstance(value, SyntaxError) else str(value)
        text = "".join(lines) + f"{etype.__name__}: {bounded(message, MESSAGE_LIMIT)}"
        if f"{etype.__module__}.{etype.__name__}: {message}" == _SQLITE_CANNOT_LOCK:
            text += _SQLITE_REMEDY
        return bounded(text, TRACEBACK_LIMIT)
    except Exception:
        # str() of an exception runs its own code, which can raise anything.
        return f"{etype.__name__}: (its message could not be read)"


def _is_cell(filename: str) -> bool:
    return "ipykernel_" in filename or filename.startswith("<ipython-input")
