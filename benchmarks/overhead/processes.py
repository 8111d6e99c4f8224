"""The processes that a run has started."""

from __future__ import annotations

import os
import signal
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path

from benchmarks.gigabyte.memory import descendants

__all__ = ["Process", "end", "started_by", "still_alive"]

Process = tuple[int, int]
"""A process by its number and the time of its start: numbers are used again."""


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
