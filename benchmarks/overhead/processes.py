"""The processes that a run has started."""

from __future__ import annotations

import os
import signal
import time
from collections.abc import Iterable, Iterator, Set
from contextlib import contextmanager, suppress
from pathlib import Path

from benchmarks.gigabyte.memory import descendants
from rlm.sandbox.isolation.syscalls import libc

__all__ = ["Process", "counting_orphans", "end", "started_by", "still_alive"]

_SET_CHILD_SUBREAPER = 36  # prctl(2)
_ORPHAN_SECONDS = 2.0

Process = tuple[int, int]
"""A process by its number and the time of its start: numbers are used again."""


@contextmanager
def counting_orphans() -> Iterator[None]:
    """Adopt the processes whose parent ends in the block, and reap them after it. Their time then counts as
    that of this process's children. One that runs on for two seconds is killed. Older children stay."""
    older = set(descendants())
    libc.prctl(_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    try:
        yield
    finally:
        _reap_all_but(older)
        libc.prctl(_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


def _reap_all_but(older: Set[int]) -> None:
    deadline = time.monotonic() + _ORPHAN_SECONDS
    while orphans := set(descendants()) - older:
        for orphan in orphans:
            if time.monotonic() > deadline:
                with suppress(ProcessLookupError):
                    os.kill(orphan, signal.SIGKILL)
            with suppress(ChildProcessError):
                os.waitpid(orphan, os.WNOHANG)
        time.sleep(0.01)


def started_by(process: int) -> set[Process]:
    """Return a process and its descendants."""
    return {(one, begun) for one in [process, *descendants(process)] if (begun := _begun(one))}


def still_alive(processes: Iterable[Process]) -> list[int]:
    """Return the numbers of those that have not ended."""
    return [one for one, begun in processes if _begun(one) == begun]


def end(processes: Iterable[Process]) -> None:
    """Kill those that have not ended."""
    for one in still_alive(processes):
        with suppress(ProcessLookupError):
            os.kill(one, signal.SIGKILL)


def _begun(process: int) -> int:
    """Return when a process was started, in ticks, or 0 if it has ended."""
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rsplit(")", 1)[1].split()
    except OSError:
        return 0
    return 0 if fields[0] in {"Z", "X"} else int(fields[19])
