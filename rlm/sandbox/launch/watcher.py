"""The process that watches one kernel: launches it, gives it cells, interrupts and ends it, and cleans up.

It watches a confined program, too: a worker that parses documents, or a probe. It stays outside the
namespaces. When the driver closes its channel, by closing it or by ending, the watcher ends the kernel with
all that it started, and removes its folder.

The kernel computes only while a cell runs. When a cell has ended, the kernel's process is stopped with its
threads until the next one begins, and every other process of the kernel is killed. While a cell runs, the
watcher reports how much the kernel computes: a cell that waits for children has no clock.
"""

from __future__ import annotations

import json
import os
import resource
import select
import signal
import socket
import sys
import time
from collections import deque
from collections.abc import Callable, Mapping, Set
from contextlib import suppress
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any, NoReturn

from rlm.sandbox.folders import remove
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation import orphans
from rlm.sandbox.isolation.launcher import become, launch
from rlm.sandbox.isolation.policy import Confinement, IsolationReport, LayerReport, read_report

if TYPE_CHECKING:
    from rlm.sandbox.launch.kernel_messages import KernelMessages

__all__ = ["BecomeKernel", "watch"]

BecomeKernel = Callable[[Confinement, Mapping[str, Any], str, LayerReport], NoReturn]
"""Makes the forked and confined process a kernel, with its configuration and the folder of its code. It
closes the report."""

_REPORT_SECONDS = 0.5
_IDLE_SECONDS = 0.05
"""Less than this in one interval is not reported."""
_USED = slice(11, 15)
"""Fields of /proc/PID/stat: processor time of a process and of its ended children, in ticks."""
_TICKS = os.sysconf("SC_CLK_TCK")
_DYING_SECONDS = 2.0
_ENDING_SECONDS = 0.5
"""What a kernel has to end after it closed its socket: then its status tells why."""
_NICE = 10
_MEMORY = 512 * 2**20


def watch(channel: socket.socket, helper: int, become_kernel: BecomeKernel | None) -> None:
    """Watch one kernel, or one program, until the driver closes its end of `channel`.

    The first message tells what to start. `helper` is the kernel's end of the helper channel; a program gets
    it as its last argument. Without `become_kernel`, a kernel is started as a program, too. This process must
    have no other thread.
    """
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    resource.setrlimit(resource.RLIMIT_CORE, (0, 0))
    try:
        request = _receive(channel)
    except (EOFError, OSError):
        return
    reading, writing = os.pipe()
    given, config, messages = [helper], {}, None
    if "package" in request:
        # A program is started without the messages of Jupyter, whose imports take longer than its own.
        from rlm.sandbox.launch.kernel_messages import KernelMessages

        cells, cells_theirs = socket.socketpair()
        given.append(cells_theirs.detach())
        key = os.urandom(32).hex()
        config = {"helper_fd": helper, "cells_fd": given[1], "key": key}
        messages = KernelMessages(cells, key.encode())
        # Not -I, which ignores PYTHONHASHSEED. The environment holds only our own variables.
        command = [sys.executable, "-s", "-P", f"{request['package']}/launch.py", json.dumps(config)]
    else:
        command = [*request["command"], str(helper)]
    confinement = replace(Confinement.from_json(request["confinement"]), keep_fds=tuple(given))
    report = LayerReport(writing)
    watcher = _Watcher(channel, messages, reading, confinement)

    def run() -> NoReturn:
        if become_kernel is None or messages is None:
            become(command, confinement)
        become_kernel(confinement, config, request["package"], report)

    def serve(first: int, child: int) -> int:
        # Kept open here, their ends would never end.
        for descriptor in given:
            os.close(descriptor)
        # A hostile reply ends its own kernel only.
        resource.setrlimit(resource.RLIMIT_DATA, (_MEMORY, resource.getrlimit(resource.RLIMIT_DATA)[1]))
        return watcher.serve(first, child)

    try:
        launch(confinement, report, command, run, serve)
        report.close()
        watcher.tell_refusal()
    finally:
        if messages is not None:
            remove(Path(request["folder"]))


class _Watcher:
    """Serves the driver on `channel`. The layers of the kernel's confinement come on the pipe `layers`."""

    def __init__(
        self, channel: socket.socket, messages: KernelMessages | None, layers: int, confinement: Confinement
    ) -> None:
        self._channel = channel
        self._messages = messages
        self._layers = layers
        self._confinement = confinement
        self._said = b""
        self._first = 0
        self._kernel: int | None = None
        self._report: IsolationReport | None = None
        self._waiting: deque[dict[str, Any]] = deque()
        self._cell: int | None = None
        self._began = 0.0
        self._used: float | None = None
        self._spared: frozenset[int] = frozenset()
        self._beyond: set[int] = set()
        self._doomed: float | None = None
        self._broke = ""
        self._poll = select.poll()

    def serve(self, first: int, child: int) -> int:
        """Serve until `child` has ended, and return its status. The death of `first` ends it."""
        self._first = first
        woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
        # Any ended child wakes up the loop.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
        for source in (self._channel.fileno(), self._layers, woken):
            self._poll.register(source, select.POLLIN)
        while (status := _reap(child)) is None:
            ready = {source for source, _ in self._poll.poll(self._milliseconds())}
            if woken in ready:
                os.read(woken, 4096)
            if self._layers in ready:
                self._read_layers()
            if self._messages is not None and self._messages.cells.fileno() in ready:
                self._exchange()
            if self._channel.fileno() in ready:
                self._serve_driver()
            if not ready and self._used is not None:
                self._tell_computing()
            if self._doomed is not None and time.monotonic() > self._doomed:
                self._kill()
        if self._report is not None:
            self._tell(event="died", detail=self._broke or _describe_exit(status))
        return status

    def tell_refusal(self) -> None:
        """Tell the driver, if the kernel was never confined, which layers failed."""
        if self._report is None:
            while said := os.read(self._layers, 4096):
                self._said += said
            report = read_report(self._confinement.level, self._said)
            if report.failed:
                self._tell(event="refused", failed=dict(report.failed))
            else:
                self._tell(event="died", detail="it ended while it started")

    def _milliseconds(self) -> float | None:
        if self._doomed is not None:
            return max(0.0, self._doomed - time.monotonic()) * 1_000 + 1
        return _REPORT_SECONDS * 1_000 if self._used is not None else None

    def _read_layers(self) -> None:
        """Read what the launcher reports. At the end of it the kernel is confined: ask if it is ready."""
        said = os.read(self._layers, 4096)
        self._said += said
        if said:
            return
        self._poll.unregister(self._layers)
        report = read_report(self._confinement.level, self._said)
        if report.failed:
            # What failed is told once it has ended.
            self._kill()
            return
        self._report = report
        if self._messages is None:
            self._tell_ready()
        else:
            self._ask("kernel_info", {})

    def _serve_driver(self) -> None:
        try:
            message = _receive(self._channel)
        except (EOFError, OSError):
            self._poll.unregister(self._channel)
            self._kill()
            return
        match message["op"]:
            case "execute":
                self._waiting.append(message)
                self._begin_next()
            case "interrupt":
                # Without a cell the kernel is stopped: the signal would hit the next one.
                if self._cell is not None:
                    self._signal(signal.SIGINT)

    def _begin_next(self) -> None:
        """Begin the next cell, unless one is still stopping."""
        if self._cell is not None or not self._waiting:
            return
        message = self._waiting.popleft()
        self._cell, self._began = message["id"], time.monotonic()
        self._signal(signal.SIGCONT)
        # Nothing else is alive, and what is stopped computes nothing.
        self._used = self._seconds(self._spared | self._beyond)
        content = {
            "code": message["code"],
            "silent": False,
            "store_history": True,
            "user_expressions": {},
            "allow_stdin": False,
            "stop_on_error": False,
        }
        # The cell's id is the number of the round.
        self._ask("execute", content, str(message["round"]))

    def _ask(self, kind: str, content: Mapping[str, Any], cell_id: str | None = None) -> None:
        assert self._messages is not None
        self._messages.ask(kind, content, cell_id)
        self._poll.register(self._messages.cells, select.POLLIN | self._writing())

    def _writing(self) -> int:
        return select.POLLOUT if self._messages is not None and self._messages.has_unsent else 0

    def _exchange(self) -> None:
        """Send and receive what the kernel's socket takes and holds."""
        assert self._messages is not None
        try:
            self._messages.send()
            reply = self._messages.receive()
        except EOFError:
            self._poll.unregister(self._messages.cells)
            self._doomed = time.monotonic() + _ENDING_SECONDS
            return
        except wire.WireError as error:
            self._poll.unregister(self._messages.cells)
            self._broke = f"it broke its protocol ({error})"
            self._kill()
            return
        if reply is None:
            self._poll.modify(self._messages.cells, select.POLLIN | self._writing())
            return
        self._poll.unregister(self._messages.cells)
        if self._cell is None:
            self._pin()
            self._tell_ready()
            self._begin_next()
            return
        seconds, number = time.monotonic() - self._began, self._cell
        self._tell(event="result", id=number, seconds=seconds, **self._messages.outcome_of(reply))
        self._end_cell()
        self._begin_next()

    def _end_cell(self) -> None:
        """Stop the kernel until the next cell, and kill the processes that this one left."""
        self._cell = self._used = None
        self._signal(signal.SIGSTOP)
        killed, self._beyond = orphans.end_all(self._spared)
        end = time.monotonic() + _DYING_SECONDS
        while killed & orphans.descendants() and time.monotonic() < end:
            time.sleep(0.001)
        if killed:
            # One of them may have let the kernel go on.
            self._signal(signal.SIGSTOP)

    def _pin(self) -> None:
        """Remember the kernel's process, before any cell runs."""
        # Interrupts go to this process. With namespaces, `first` is process 1 of the kernel's namespace: it
        # ignores signals that it has no handler for. The kernel is its only child as long as no cell has run.
        # A pidfd keeps meaning this process; its number could be reused once a cell has ended it.
        kernel, below = self._first, orphans.descendants()
        if self._report is not None and "namespaces" in self._report.layers:
            kernel = next(pid for pid in below if orphans.stat_fields(pid)[1] == str(kernel))
        self._kernel = os.pidfd_open(kernel)
        # The user's own programs go first on a busy machine. Not before the start, which the user waits for.
        for thread in (int(entry.name) for entry in Path(f"/proc/{kernel}/task").iterdir()):
            with suppress(OSError):  # the thread has ended
                os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))
        self._spared = frozenset(below)

    def _signal(self, number: int) -> None:
        if self._kernel is not None:
            with suppress(ProcessLookupError):
                signal.pidfd_send_signal(self._kernel, number)

    def _kill(self) -> None:
        """Kill the kernel and, with namespaces, all that it started. The launcher ends the rest."""
        self._doomed = None
        with suppress(ProcessLookupError):
            os.kill(self._first, signal.SIGKILL)

    def _tell_ready(self) -> None:
        assert self._report is not None
        layers = dict(self._report.layers)
        self._tell(event="ready", level=self._report.level, layers=layers, first=self._first)

    def _tell_computing(self) -> None:
        before, self._used = self._used, max(self._used or 0.0, self._seconds(orphans.descendants()))
        assert before is not None
        if self._used - before > _IDLE_SECONDS:
            self._tell(event="computing", seconds=self._used - before)

    def _seconds(self, processes: Set[int]) -> float:
        """Return what these processes have computed so far, including the children that they reaped."""
        ticks = sum(sum(map(int, orphans.stat_fields(pid)[_USED])) for pid in processes)
        return ticks / _TICKS

    def _tell(self, **event: Any) -> None:
        try:
            data = wire.encode(event)
        except wire.WireError as error:
            # A hostile reply may hold more pieces than a frame takes.
            self._broke = f"it broke its protocol ({error})"
            self._kill()
            return
        with suppress(OSError):  # the driver has gone
            self._channel.sendall(data)


def _receive(channel: socket.socket) -> dict[str, Any]:
    """Receive a message from the driver. Raises EOFError."""
    return wire.decode(_exactly(channel, wire.body_size(_exactly(channel, wire.HEADER_SIZE))))


def _exactly(channel: socket.socket, size: int) -> bytes:
    data = b""
    while len(data) < size:
        piece = channel.recv(size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return data


def _reap(child: int) -> int | None:
    """Reap every ended process. Return the shell status of `child` if it is among them."""
    found = None
    with suppress(ChildProcessError):
        while True:
            pid, status = os.waitpid(-1, os.WNOHANG)
            if not pid:
                break
            if pid == child:
                code = os.waitstatus_to_exitcode(status)
                found = code if code >= 0 else 128 - code
    return found


def _describe_exit(status: int) -> str:
    if status == 0:
        return "it ended by itself"
    if status == 128 + signal.SIGKILL:
        return "it was killed (out of memory, or from outside)"
    if status > 128:
        with suppress(ValueError):
            return f"it was ended by {signal.Signals(status - 128).name}"
    return f"it ended with status {status}"
