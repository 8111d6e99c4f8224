"""Ends the process at once after a signal."""

from __future__ import annotations

import os

__all__ = ["leave"]

_SHOW_CURSOR = b"\x1b[?25h"


def leave(signum: int, line: str = "rlm: interrupted\n") -> None:
    """End the process with the exit code of that signal. Nothing is cleaned up: the journal needs no cleanup,
    and kernels end with this process."""
    try:
        # A progress display hides the cursor.
        os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + line.encode())
    finally:
        os._exit(128 + signum)
