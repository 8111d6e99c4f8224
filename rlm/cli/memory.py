"""Keeps the memory and the environment of this process, which hold API keys, from others."""

from __future__ import annotations

import resource
from contextlib import suppress

__all__ = ["hide_process_memory"]

_PR_SET_DUMPABLE = 4


def hide_process_memory() -> None:
    """Write no core file, and let no other process of this user read the memory or `/proc/PID/environ`.

    Programs that this process starts are not affected: each is readable again, as their confinement needs.
    A machine that refuses is left as it is.
    """
    import ctypes

    with suppress(OSError, ValueError):
        resource.setrlimit(resource.RLIMIT_CORE, (0, resource.getrlimit(resource.RLIMIT_CORE)[1]))
    # A core file may also go to a program (core_pattern), which that limit does not stop.
    with suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0)
