"""Finds and kills the processes that a kernel left behind, where no namespace does it."""

from __future__ import annotations

import os
import signal
from contextlib import suppress
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["adopt", "end_all"]

_PR_SET_CHILD_SUBREAPER = 36


def adopt() -> None:
    """Become the new parent of orphaned descendants, also after setsid and double forks."""
    check_result(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(CHILD_SUBREAPER)")


def end_all() -> None:
    """Kill and reap every descendant. They are stopped first: a stopped process cannot fork."""
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
            # At least one of them ends and is our child. The others may be gone already.
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def _descendants() -> set[int]:
    children: dict[int, list[int]] = {}
    for entry in os.scandir("/proc"):
        if entry.name.isdecimal():
            try:
                # The program's name may hold anything, even a parenthesis.
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
    """Send a signal. Return the pids that may not be signalled: at level 0 a cell can run setuid programs."""
    beyond = set()
    for pid in pids:
        try:
            os.kill(pid, number)
        except ProcessLookupError:
            continue
        except PermissionError:
            beyond.add(pid)
    return beyond
