"""Samples the memory of a process and its descendants."""

from __future__ import annotations

import threading
from pathlib import Path

from benchmarks.gigabyte.memory import descendants

__all__ = ["PeakMemory"]

_SECONDS = 0.02


class PeakMemory:
    """Samples the memory (PSS) of a process and its descendants while it is open. `mb` is the peak."""

    def __init__(self, process: int, *, is_active: bool = True) -> None:
        self.mb = 0.0
        self._process = process
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=self._watch, daemon=True) if is_active else None

    def __enter__(self) -> PeakMemory:
        if self._thread is not None:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stopped.set()
        if self._thread is not None:
            self._thread.join()

    def _watch(self) -> None:
        while not self._stopped.wait(_SECONDS):
            together = sum(_pss(one) for one in [self._process, *descendants(self._process)])
            self.mb = max(self.mb, together / 1_000_000)


def _pss(process: int) -> int:
    try:
        rollup = Path(f"/proc/{process}/smaps_rollup").read_text("ascii")
    except OSError:
        return 0
    return next((int(line.split()[1]) * 1024 for line in rollup.splitlines() if line.startswith("Pss:")), 0)
