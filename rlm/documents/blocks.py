"""Bytes in blocks from whatever can be read, never waiting where the one who waits can't be called back."""

from __future__ import annotations

import io
import os
import select
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import BinaryIO

from rlm.errors import DocumentError

__all__ = ["BLOCK", "blocks", "opened"]

BLOCK = 1 << 20
"""Bytes of a block."""

_TICK_MILLISECONDS = 100


def opened(path: Path) -> io.FileIO:
    """The file at `path`, a named pipe at once and whether or not anyone writes to it. Raises OSError."""
    return io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))


def blocks(stream: BinaryIO, name: str | Path, tick: Callable[[], None]) -> Iterator[bytes]:
    """All of `stream` in blocks of `BLOCK` bytes, the last one shorter: how a pipe was written to does not
    show. `tick` is called after each read and every 0.1 s of waiting, and may raise to end it.

    A stream that is neither a file nor a pipe (nor a buffer over one) is read as it likes: it may wait
    without a tick. Raises DocumentError, which names `name`.
    """
    try:
        read = _reader(stream, tick)
        # A file gives whole blocks by itself. One that grows while it is read must not be waited for: its
        # reader looks at it between blocks.
        gathers = not _is_file(stream)
        ended = False
        while not ended:
            pieces: list[bytes] = []
            missing = BLOCK
            while missing and not ended and (gathers or not pieces):
                piece = read(missing)
                tick()
                pieces.append(piece)
                missing -= len(piece)
                ended = not piece
            if block := b"".join(pieces):
                yield block
    except OSError as error:
        raise DocumentError(
            f"{name} can't be read to its end: {error.strerror}: check the file and try again"
        ) from error


def _is_file(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):  # it has no descriptor
        return False


def _reader(stream: BinaryIO, tick: Callable[[], None]) -> Callable[[int], bytes]:
    """Reads up to so many bytes, none at the end only."""
    raw = stream.raw if isinstance(stream, io.BufferedReader) else stream
    if not isinstance(raw, io.FileIO):
        # Its descriptor, if it has one, need not be readable when it has more to give (TLS, decompression).
        return lambda size: stream.read(size) or b""
    waiting = select.poll()
    waiting.register(raw, select.POLLIN)
    # What a buffer holds already is not lost by waiting for its file first: at the end a file is readable.
    once = stream.read1 if isinstance(stream, io.BufferedReader) else raw.read

    def read(size: int) -> bytes:
        while True:
            while not waiting.poll(_TICK_MILLISECONDS):
                tick()
            piece = once(size)
            if piece is not None:  # else another reader of the same pipe was quicker
                return piece

    return read
