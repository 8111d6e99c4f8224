"""Ends the command after a signal, even when its event loop stands still."""

from __future__ import annotations

import asyncio
import os
import select
import signal
import socket
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager, suppress
from pathlib import Path

from rlm.cli.process import last_resort
from rlm.cli.process.leaving import leave

__all__ = ["watching"]

LOOP_SECONDS = 1.5
"""Seconds in which the event loop must react, to the signal and then to each question whether it is alive."""
CLEANUP_SECONDS = 10.0
"""Seconds that the cleanup after a signal may take in all."""
_ASK_SECONDS = 0.2
_OVERDUE = "rlm: interrupted; it was busy and did not stop, so it was ended at once\n"


@contextmanager
def watching(
    loop: asyncio.AbstractEventLoop, signums: Collection[int], end: Callable[[], None]
) -> Iterator[None]:
    """Take over these signals. Call on the main thread, before `loop` runs.

    The first signal calls `end` on the event loop, which should cancel the work and clean up. If the loop
    does not react, now or later, or if the cleanup takes too long, the process ends by itself. A second
    Ctrl-C ends it at once. A closed terminal sends SIGHUP more than once; that must not cut the cleanup
    short.
    """
    # Python's C handler writes the number of each signal into `writing`, whatever the main thread does. A
    # thread reads it. If not even a thread can run, since C code keeps Python's lock, another process sees
    # that the number stays unread.
    reading, writing = socket.socketpair()
    writing.setblocking(False)
    watchdog = _Watchdog(reading, frozenset(signums), loop, end)
    process = _start_last_resort(reading, signums)
    before = {signum: signal.signal(signum, _do_nothing) for signum in signums}
    for signum in signums:
        signal.siginterrupt(signum, False)
    wakeup = signal.set_wakeup_fd(writing.fileno(), warn_on_full_buffer=False)
    watchdog.start()
    try:
        yield
    finally:
        watchdog.is_over = True
        signal.set_wakeup_fd(wakeup)
        for signum, handler in before.items():
            signal.signal(signum, handler)
        # Its end tells the thread and the process to return.
        writing.close()
        watchdog.join()
        reading.close()
        if process is not None:
            with suppress(subprocess.TimeoutExpired):
                process.wait(_ASK_SECONDS)
            process.kill()
            process.wait()


def _do_nothing(*_: object) -> None:
    """Let the C handler alone report the signal."""


def _start_last_resort(reading: socket.socket, signums: Collection[int]) -> subprocess.Popen[bytes] | None:
    program = str(Path(last_resort.__file__))
    numbers = [reading.fileno(), os.getpid(), *map(int, signums)]
    command = [sys.executable, "-I", "-S", program, *map(str, numbers)]
    with suppress(OSError):
        # A session of its own, so that Ctrl-C in the terminal does not reach it.
        return subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            pass_fds=[reading.fileno()],
            start_new_session=True,
        )
    return None


class _Watchdog(threading.Thread):
    """Reads signals and asks the event loop, from the first signal on, whether it is alive."""

    def __init__(
        self,
        signals: socket.socket,
        taken: frozenset[int],
        loop: asyncio.AbstractEventLoop,
        end: Callable[[], None],
    ) -> None:
        super().__init__(name="rlm-watchdog", daemon=True)
        self.is_over = False
        self._signals = signals
        self._taken = taken
        self._loop = loop
        self._end = end
        self._first: int | None = None
        self._began = self._asked = 0.0
        self._is_answered = threading.Event()

    def run(self) -> None:
        while True:
            ready, _, _ = select.select(
                [self._signals], [], [], None if self._first is None else _ASK_SECONDS
            )
            if ready:
                received = self._signals.recv(64)
                if not received:
                    return
                # Every signal with a handler in Python is reported, also those of other code.
                for signum in received:
                    if signum in self._taken:
                        self._on_signal(signum)
            if self._first is not None and not self.is_over:
                self._check(self._first)

    def _on_signal(self, signum: int) -> None:
        if self._first is None:
            self._first, self._began = signum, time.monotonic()
            self._ask(self._end)
        elif signum == signal.SIGINT:
            leave(signum)

    def _check(self, signum: int) -> None:
        now = time.monotonic()
        if self._is_answered.is_set():
            self._ask(lambda: None)
        elif now - self._asked > LOOP_SECONDS:
            leave(signum, _OVERDUE)
        if now - self._began > CLEANUP_SECONDS:
            leave(signum, _OVERDUE)

    def _ask(self, act: Callable[[], None]) -> None:
        """Make the loop call `act`, and note when it did."""
        self._is_answered.clear()
        self._asked = time.monotonic()

        def answer() -> None:
            self._is_answered.set()
            act()

        # A closed loop answers nothing. Its closing is the last thing that the command waits for.
        with suppress(RuntimeError):
            self._loop.call_soon_threadsafe(answer)
