"""The time that a whole loading may take."""

from __future__ import annotations

import time

__all__ = ["Deadline", "TimeOver"]


class TimeOver(Exception):
    """Raised while a document is read, when the time of the loading is over."""


class Deadline:
    """A limit in seconds, from now on. None never ends."""

    def __init__(self, seconds: float | None) -> None:
        self._seconds = seconds
        self._until = None if seconds is None else time.monotonic() + seconds
        self.is_over = False
        """Whether `check` has raised."""

    def renewed(self) -> Deadline:
        """Return this limit, or if it is over, a quarter of it from now on: an attempt that could not give a
        part of the text took all of it."""
        return Deadline(self._seconds / 4) if self.is_over and self._seconds is not None else self

    def check(self, grace: float = 0.0) -> None:
        """Raise TimeOver if the time has been over for `grace` seconds."""
        if self._until is not None and time.monotonic() > self._until + grace:
            self.is_over = True
            raise TimeOver

    @property
    def reason(self) -> str:
        """Why a document is skipped. It follows "is"."""
        return f"not read within the {self._seconds:g} s for loading"

    @property
    def remedy(self) -> str:
        """What the user can do."""
        return "name fewer files, or raise the time limit (limits.max_seconds, --max-seconds)"
