"""Finds and kills the processes that a kernel left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Set
from contextlib import suppress
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["adopt", "descendants", "end_all", "stat_fields"]

_PR_SET_CHILD_SUBREAPER = 36
_GONE = (FileNotFoundError, ProcessLookupError)


def adopt() -> None:
    """Become the new parent of orphaned descendants, also after setsid and double forks."""
    check_result(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(CHILD_SUBREAPER)")


def end_all(spared: Set[int] = frozenset()) -> set[int]:
    """Kill every descendant but those in `spared`. Return those killed last.

    They are stopped first: a stopped process cannot fork. If none is spared, they are reaped, too.
    """
    beyond: set[int] = set()
    while True:
        stopped: set[int] = set()
        while fresh := descendants() - stopped - beyond - spared:
            beyond |= _send(fresh, signal.SIGSTOP)
            stopped |= fresh - beyond
        _send(stopped, signal.SIGKILL)
        if not stopped or spared:
            return stopped
        with suppress(ChildProcessError):
            # At least one of them ends and is our child. The others may be gone already.
            os.waitpid(-1, 0)
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass


def descendants() -> set[int]:
    """Return the living processes that descend from this one."""
    # Not every Linux lists children (CONFIG_PROC_CHILDREN).
    found = _below(os.getpid()) if Path("/proc/thread-self/children").exists() else _search()
    return {pid for pid in found if stat_fields(pid)[:1] not in ([], ["Z"])}


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name. Empty if the process is gone."""
    try:
        # The name may hold anything, even a parenthesis.
        return Path(f"/proc/{pid}/stat").read_text(errors="replace").rpartition(")")[2].split()
    except _GONE:
        return []


def _below(pid: int) -> set[int]:
    found: set[int] = set()
    # Read again after the children: when one of them ends, its own children move up to this process.
    while fresh := _children(pid) - found:
        found |= fresh
        for child in fresh:
            found |= _below(child)
    return found


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(*_GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - twice as fast
            with suppress(*_GONE), open(f"/proc/{pid}/task/{thread}/children", "rb") as children:  # noqa: PTH123
                found.update(map(int, children.read().split()))
    return found


def _search() -> set[int]:
    """Find the descendants by the parents of all processes."""
    children: dict[int, list[int]] = {}
    for entry in filter(str.isdecimal, os.listdir("/proc")):  # noqa: PTH208
        fields = stat_fields(int(entry))
        if fields:
            children.setdefault(int(fields[1]), []).append(int(entry))
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
