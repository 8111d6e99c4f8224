"""Measure the private memory of this process and its descendants. Mapped files do not count."""

from __future__ import annotations

import threading
from pathlib import Path
from types import TracebackType
from typing import Self

_MB = 1 << 20


def private(process: int | str = "self") -> int:
    """Return the bytes that only this process uses, or 0 if it has ended."""
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    return next(
        (int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Private_Dirty:")), 0
    )


def descendants(process: int | str = "self") -> list[int]:
    """Return the processes that this one started, directly or not."""
    found: list[int] = []
    # The process or a task may end between any two of these lines.
    try:
        tasks = list(Path(f"/proc/{process}/task").iterdir())
    except OSError:
        return found
    for task in tasks:
        try:
            started = [int(child) for child in (task / "children").read_text("ascii").split()]
        except OSError:
            continue
        for child in started:
            found += [child, *descendants(child)]
    return found


def _command(process: int | str = "self") -> bytes:
    """Return the command line of a process. After a fork it is the parent's until the program starts."""
    try:
        return Path(f"/proc/{process}/cmdline").read_bytes()
    except OSError:
        return b""


class MemoryWatch:
    """Samples the memory while it is open. All figures are in MB.

    `driver_growth` is the growth of this process since the start. `largest` is the largest child process (the
    kernel), and `together` is the sum of all child processes.
    """

    def __init__(self, seconds: float = 0.02) -> None:
        self._seconds = seconds
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True)
        self._before = 0
        self._driver = self._largest = self._together = 0
        self.samples = 0

    @property
    def driver_growth(self) -> float:
        return (self._driver - self._before) / _MB

    @property
    def largest(self) -> float:
        return self._largest / _MB

    @property
    def together(self) -> float:
        return self._together / _MB

    def __enter__(self) -> Self:
        self._before = private()
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join()

    def _watch(self) -> None:
        ours = _command()
        while not self._stopped.wait(self._seconds):
            sizes = [private(process) for process in descendants() if _command(process) != ours]
            self._driver = max(self._driver, private())
            self._largest = max(self._largest, *sizes, 0)
            self._together = max(self._together, sum(sizes))
            self.samples += 1
