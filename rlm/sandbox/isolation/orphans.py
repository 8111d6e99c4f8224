"""Where no namespace ends them all: the processes that a kernel left behind are found and killed."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from rlm.sandbox.isolation.syscalls import checked, libc

__all__ = ["adopt", "end_all"]

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """From here on whatever loses its parent below this process becomes this process's child, also after
    setsid and double forks."""
    checked(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(CHILD_SUBREAPER)")


def end_all() -> None:
    """Kill every descendant and reap it. They are stopped first: what is stopped can't fork away."""
    beyond: set[int] = set()
    while True:
        stopped: set[int] = set()
        while fresh := _descendants() - stopped - beyond:
            beyond |= _send(fresh, signal.SIGSTOP)
            stopped |= fresh - beyond
        if not stopped:
            return
        _send(stopped, signal.SIGKILL)
        with suppress(ChildProcessError):
            # One at least is ending and is ours to wait for; the others may be gone already.
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _descendants() -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                # The name of the program may hold anything, also a parenthesis.
                fields = Path(entry.path, "stat").read_text(errors="replace").rpartition(")")[2].split()
            except OSError:
                continue
            if fields[0] != "Z":
                children.setdefault(int(fields[1]), []).append(int(entry.name))
    found: set[int] = set()
    waiting = [os.getpid()]
    while waiting:
        for child in children.get(waiting.pop(), []):
            if child not in found:
                found.add(child)
                waiting.append(child)
    return found


def _send(pids: set[int], number: int) -> set[int]:
    """Those that may not be sent anything: at level 0 a cell can run a setuid program."""
    beyond = set()
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            beyond.add(pid)
    return beyond
