"""Finds and kills the processes that a kernel left behind."""

from __future__ import annotations

import os
import signal
from collections.abc import Set
from contextlib import suppress
from functools import cache
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["adopt", "descendants", "end_all", "stat_fields"]

_PR_SET_CHILD_SUBREAPER = 36
_PAGE = 4096
_GONE = (FileNotFoundError, ProcessLookupError)


def adopt() -> None:
    """Become the new parent of orphaned descendants, also after setsid and double forks."""
    check_result(libc.prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0), "prctl(CHILD_SUBREAPER)")


def end_all(spared: Set[int] = frozenset(), *, besides: Set[int] = frozenset()) -> tuple[set[int], set[int]]:
    """Kill every descendant but those in `spared`. Return those killed last, and those that may not be.

    Children in `besides` are left alone with all below them. The others are stopped first: a stopped process
    cannot fork. If none is spared, they are reaped, too.
    """
    beyond: set[int] = set()
    while True:
        stopped: set[int] = set()
        while fresh := descendants(spared | stopped | beyond, besides=besides):
            beyond |= _send(fresh, signal.SIGSTOP)
            stopped |= fresh - beyond
        _send(stopped, signal.SIGKILL)
        if not stopped or spared:
            return stopped, beyond
        # At least one of them ends and is our child. The others may be gone already.
        for pid in stopped:
            with suppress(ChildProcessError):
                os.waitpid(pid, 0)


def descendants(known: Set[int] = frozenset(), *, besides: Set[int] = frozenset()) -> set[int]:
    """Return the living processes that descend from this one, but for those in `known`, and the children in
    `besides` with all below them."""
    found = _below(os.getpid(), besides) if _are_children_listed() else _search(besides)
    return {pid for pid in found - known if stat_fields(pid)[:1] not in ([], ["Z"])}


@cache
def _are_children_listed() -> bool:
    """Return whether this Linux lists children: not every one does (CONFIG_PROC_CHILDREN)."""
    return Path("/proc/thread-self/children").exists()


def stat_fields(pid: int) -> list[str]:
    """Return the fields of /proc/PID/stat after the program's name. Empty if the process is gone."""
    try:
        # The name may hold anything, even a parenthesis.
        with open(f"/proc/{pid}/stat", "rb") as stat:  # noqa: PTH123 - twice as fast
            return stat.read().decode(errors="replace").rpartition(")")[2].split()
    except _GONE:
        return []


def _below(pid: int, besides: Set[int] = frozenset()) -> set[int]:
    found: set[int] = set()
    # Read again after the children: when one of them ends, its own children move up to this process.
    while fresh := _children(pid) - found - besides:
        found |= fresh
        for child in fresh:
            found |= _below(child)
    return found


def _children(pid: int) -> set[int]:
    found: set[int] = set()
    with suppress(*_GONE):
        for thread in os.listdir(f"/proc/{pid}/task"):  # noqa: PTH208 - twice as fast
            with suppress(*_GONE):
                children = os.open(f"/proc/{pid}/task/{thread}/children", os.O_RDONLY | os.O_CLOEXEC)
                try:
                    # Not a file object, which takes longer than the reading.
                    listed = b""
                    while more := os.read(children, _PAGE):
                        listed += more
                    found.update(map(int, listed.split()))
                finally:
                    os.close(children)
    return found


def _search(besides: Set[int]) -> set[int]:
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
            if child not in found and child not in besides:
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
