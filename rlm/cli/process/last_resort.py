"""Ends a command whose interpreter is stuck, from a process of its own.

A thread cannot do this: a call into C code that never returns may keep Python's global lock for ever. This
file is run as a program, without the package, so that it starts in milliseconds.
"""

from __future__ import annotations

import os
import signal
import socket
import sys
import time

SECONDS = 2.5
"""Seconds that a signal may stay unread. The command's own watchdog, a thread, takes it at once. Longer than
any honest import or conversion keeps Python's lock, also on a busy machine."""
_TICK = 0.1
_LINE = b"rlm: interrupted; its interpreter was stuck, so it was killed\n"


def watch(signals: socket.socket, pid: int, taken: frozenset[int]) -> None:
    """Kill the process `pid` if it leaves one of the `taken` numbers unread in `signals` for too long. Return
    when the process has ended.

    The other end of `signals` is where the C code of Python writes the number of each signal. Both processes
    hold this end; here the bytes are only looked at.
    """
    while signals.recv(1, socket.MSG_PEEK):
        since = time.monotonic()
        while unread := _unread(signals):
            if taken.isdisjoint(unread):
                since = time.monotonic()
            if time.monotonic() - since > SECONDS:
                os.write(2, _LINE)
                os.kill(pid, signal.SIGKILL)
                return
            time.sleep(_TICK)


def _unread(signals: socket.socket) -> bytes:
    try:
        return signals.recv(1_000, socket.MSG_PEEK | socket.MSG_DONTWAIT)
    except BlockingIOError:
        return b""


if __name__ == "__main__":
    descriptor, driver, *numbers = map(int, sys.argv[1:])
    watch(socket.socket(fileno=descriptor), driver, frozenset(numbers))
