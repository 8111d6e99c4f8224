"""An object that each process has once: made on first use, closed at exit, and forgotten by a fork."""

from __future__ import annotations

import atexit
import os
import threading
from collections.abc import Callable
from typing import Generic, Protocol, TypeVar

__all__ = ["OnePerProcess"]


class _Owned(Protocol):
    def close(self) -> None:
        """End what it owns."""

    def abandon(self) -> None:
        """Forget what it owns, because that belongs to the parent of this process."""


T = TypeVar("T", bound=_Owned)


class OnePerProcess(Generic[T]):
    """Makes the object on the first `get`. Safe to use from any thread."""

    def __init__(self, make: Callable[[], T]) -> None:
        self._make = make
        self._lock = threading.Lock()
        self._made: T | None = None
        os.register_at_fork(after_in_child=self._after_fork)

    @property
    def made(self) -> T | None:
        """Return the object if it has been made."""
        return self._made

    def get(self) -> T:
        """Return the object."""
        with self._lock:
            if self._made is None:
                self._made = self._make()
                atexit.register(self._made.close)
            return self._made

    def _after_fork(self) -> None:
        # A thread of the parent may have held the lock.
        self._lock = threading.Lock()
        if self._made is not None:
            self._made.abandon()
