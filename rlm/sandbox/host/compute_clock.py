"""Counts the seconds that a cell computes.

Time in which a cell waits for a model does not count. A handler marks this time with `waiting`.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

__all__ = ["ComputeClock", "serve_with", "waiting"]


class ComputeClock:
    """Counts the seconds that a cell computes. Time spent waiting for children does not count."""

    def __init__(self) -> None:
        self._waiting = 0
        self._counted = 0.0
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        """Return the seconds counted so far."""
        return self._counted + (0.0 if self._waiting else time.monotonic() - self._since)

    def charge(self, seconds: float) -> None:
        """Count seconds that the kernel computed. Unless paused, they are counted already."""
        if self._waiting:
            self._counted += seconds

    def pause(self) -> None:
        """Stop counting until the matching `resume`. Pauses nest."""
        if self._waiting == 0:
            self._counted = self.seconds
        self._waiting += 1

    def resume(self) -> None:
        """End one pause."""
        self._waiting -= 1
        if self._waiting == 0:
            self._since = time.monotonic()


# A context variable and no argument: the tasks of a call inherit it, so that the code deep below a handler
# can mark its waiting without every function in between passing a clock on.
_serving: ContextVar[ComputeClock | None] = ContextVar("rlm_cell_clock", default=None)


def serve_with(clock: ComputeClock) -> None:
    """Make `clock` the one that `waiting` pauses in this task and in the tasks that it starts."""
    _serving.set(clock)


@contextmanager
def waiting() -> Iterator[None]:
    """Pause the clock of the cell whose call is being served. Without such a cell nothing happens.

    Only for a wait that has a limit of its own, such as a model call in flight.
    """
    clock = _serving.get()
    if clock is None:
        yield
        return
    clock.pause()
    try:
        yield
    finally:
        clock.resume()
