"""Lets a kernel compute only while a cell runs. Used by the launcher's watcher, which stays outside.

The supervisor says on a socket when a cell begins and ends. When it ends, the kernel's process is stopped
with its threads, until the next cell begins, and every other process of the kernel is killed. While a cell
runs, the watcher reports how much the kernel computes: a cell that waits for children has no clock.
"""

from __future__ import annotations

import os
import select
import signal
import socket
import time
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from rlm.sandbox.isolation import orphans

__all__ = ["BEGIN", "DONE", "END", "CellGuard"]

BEGIN, END, DONE = b"begin", b"end", b"done"
"""The supervisor sends the first two, the watcher answers END with DONE. Anything else that the watcher sends
is a number: seconds of computing since the last one."""

_REPORT_SECONDS = 0.5
_IDLE_SECONDS = 0.05
"""Less than this in one interval is not reported."""
_USED = slice(11, 15)
"""Fields of /proc/PID/stat: processor time of a process and of its ended children, in ticks."""
_DYING_SECONDS = 2.0
_NICE = 10
_TICKS = os.sysconf("SC_CLK_TCK")


class CellGuard:
    """Guards one kernel. `first` is the kernel's process, or the process 1 of its namespace.

    With `is_namespaced`, the kernel is the first child of `first`.
    """

    def __init__(self, cells: socket.socket, first: int, *, is_namespaced: bool) -> None:
        self._cells = cells
        self._first = first
        self._is_namespaced = is_namespaced
        self._kernel: int | None = None
        self._spared: frozenset[int] = frozenset()
        self._beyond: set[int] = set()
        self._used: float | None = None
        self._waking, waking = os.pipe()
        os.set_blocking(waking, False)
        os.set_blocking(self._waking, False)
        # Any ended child wakes up `serve`.
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.set_wakeup_fd(waking, warn_on_full_buffer=False)

    def serve(self, child: int) -> int:
        """Serve the supervisor and reap processes until `child` has ended. Return its shell status."""
        waiting = select.poll()
        for source in (self._cells.fileno(), self._waking):
            waiting.register(source, select.POLLIN)
        while True:
            status = _reap(child)
            if status is not None:
                return status
            ready = {
                source
                for source, _ in waiting.poll(_REPORT_SECONDS * 1_000 if self._used is not None else None)
            }
            if self._waking in ready:
                os.read(self._waking, 4096)
            if self._cells.fileno() in ready:
                word = self._cells.recv(16)
                if not word:
                    # The supervisor has gone. Its end ends us, too.
                    waiting.unregister(self._cells.fileno())
                elif word == BEGIN:
                    self._begin()
                elif word == END:
                    self._end()
            elif not ready and self._used is not None:
                self._report()

    def _begin(self) -> None:
        if self._kernel is None:
            self._pin()
        self._signal(signal.SIGCONT)
        # Nothing else is alive, and what is stopped computes nothing.
        self._used = self._seconds(self._spared | self._beyond)

    def _end(self) -> None:
        self._used = None
        self._signal(signal.SIGSTOP)
        killed, self._beyond = orphans.end_all(self._spared)
        end = time.monotonic() + _DYING_SECONDS
        while killed & orphans.descendants() and time.monotonic() < end:
            time.sleep(0.001)
        if killed:
            # One of them may have let the kernel go on.
            self._signal(signal.SIGSTOP)
        with suppress(OSError):
            self._cells.send(DONE)

    def _pin(self) -> None:
        """Remember the kernel's process. Before the first cell it is the only child of its process 1."""
        kernel = self._first
        if self._is_namespaced:
            kernel = int(Path(f"/proc/{kernel}/task/{kernel}/children").read_text().split()[0])
        self._kernel = os.pidfd_open(kernel)
        # The user's own programs go first on a busy machine. Not before the start, which the user waits for.
        for thread in (int(entry.name) for entry in Path(f"/proc/{kernel}/task").iterdir()):
            with suppress(OSError):  # the thread has ended
                os.setpriority(os.PRIO_PROCESS, thread, max(_NICE, os.getpriority(os.PRIO_PROCESS, thread)))
        self._spared = frozenset(orphans.descendants())

    def _signal(self, number: int) -> None:
        assert self._kernel is not None
        with suppress(ProcessLookupError):
            signal.pidfd_send_signal(self._kernel, number)

    def _report(self) -> None:
        before, self._used = self._used, max(self._used or 0.0, self._seconds(orphans.descendants()))
        assert before is not None
        if self._used - before > _IDLE_SECONDS:
            with suppress(OSError):
                self._cells.send(f"{self._used - before:.2f}".encode(), socket.MSG_DONTWAIT)

    def _seconds(self, processes: Set[int]) -> float:
        """Return what these processes have computed so far, including the children that they reaped."""
        ticks = sum(sum(map(int, orphans.stat_fields(pid)[_USED])) for pid in processes)
        return ticks / _TICKS


def _reap(child: int) -> int | None:
    """Reap every ended process. Return the status of `child` if it is among them."""
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
