"""Standard input as the text, for a command without a PATH: what is piped in, or a file."""

from __future__ import annotations

import io
import os
import select
import stat
import sys
import time
from typing import BinaryIO

from rlm.cli.console.exits import say
from rlm.errors import UsageError

__all__ = ["piped_input"]

_HINT_SECONDS = 2.0
_SILENT_SECONDS = 30.0
_TICK_SECONDS = 0.1


def piped_input() -> BinaryIO | None:
    """Return standard input if a text is piped or redirected into it; None for a terminal, a device
    (`/dev/null`), a closed descriptor, an empty file and a pipe that ends at once.

    Waits for the first byte: editors, cron and CI leave open pipes that nothing writes to. Raises UsageError
    after 30 s of silence.
    """
    try:
        stream = sys.stdin.buffer
        descriptor = stream.fileno()
        status = os.fstat(descriptor)
    except (AttributeError, OSError, ValueError):  # closed, or replaced by something without a descriptor
        return None
    if stat.S_ISREG(status.st_mode):
        return stream if os.lseek(descriptor, 0, os.SEEK_CUR) < status.st_size else None
    if not (stat.S_ISFIFO(status.st_mode) or stat.S_ISSOCK(status.st_mode)):
        return None
    if not isinstance(stream, io.BufferedReader):
        return None
    _await_first_byte(descriptor)
    return stream if stream.peek(1) else None


def _await_first_byte(descriptor: int) -> None:
    waiting = select.poll()
    waiting.register(descriptor, select.POLLIN)
    begun = time.monotonic()
    is_told = False
    # In short steps: a signal is seen between them.
    while not waiting.poll(_TICK_SECONDS * 1_000):
        waited = time.monotonic() - begun
        if waited > _HINT_SECONDS and not is_told:
            is_told = True
            say("no PATH is given: waiting for a text on standard input")
        if waited > _SILENT_SECONDS:
            raise UsageError(
                f"no PATH is given, and nothing came on standard input for {_SILENT_SECONDS:g} s: name files "
                "or folders, or - to wait for standard input as long as it takes"
            )
