"""Reading of files, pipes and streams in blocks, within a time. Waiting can be interrupted by the caller."""

from __future__ import annotations

import io
import os
import select
import stat
import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Future
from pathlib import Path
from typing import BinaryIO, TypeVar

from rlm.errors import DocumentError

__all__ = [
    "BLOCK",
    "TICK_SECONDS",
    "Deadline",
    "TimeOver",
    "blocks",
    "file_blocks",
    "open_file",
    "unreadable",
    "wait_for",
]

BLOCK = 1 << 20
"""Bytes of a block."""

_T = TypeVar("_T")

TICK_SECONDS = 0.1
_END_SECONDS = 1.0
_WRITER_SECONDS = 30.0


def open_file(path: str | Path) -> io.FileIO:
    """Open the file at `path`. A named pipe opens at once, even without a writer. Raises OSError."""
    return io.FileIO(os.open(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC))


def blocks(stream: BinaryIO, name: str | Path, tick: Callable[[], None]) -> Iterator[bytes]:
    """Yield `stream` in blocks of `BLOCK` bytes; only the last one is shorter.

    The sizes of a pipe's writes do not show. `tick` is called after each read and every 0.1 s of waiting, and
    may raise to stop. A stream that is neither a file nor a pipe (nor a buffer over one) may wait without a
    tick. A named pipe that no program opens for writing within 30 s is an error. Raises DocumentError, which
    names `name`.
    """
    try:
        read = _reader(stream, name, tick)
        # A file gives whole blocks by itself. Waiting for a file that grows would never end, so its reader
        # checks it between blocks.
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
        raise _cut_off(name, error) from error


def file_blocks(
    stream: io.FileIO, path: str | Path, before: os.stat_result, tick: Callable[[], None], done: int = 0
) -> Iterator[bytes]:
    """Yield the blocks of a regular file after `done` bytes. Raises DocumentError as soon as the file
    changes, because a file that grows as fast as it is read would never end."""
    try:
        while block := stream.read(BLOCK):
            tick()
            yield block
            now = os.fstat(stream.fileno())
            if now.st_mtime_ns != before.st_mtime_ns or now.st_size != before.st_size:
                raise DocumentError(f"{path} changed while it was read: try again when nothing writes to it")
            done += len(block)
            if done == before.st_size:  # files of /proc have no size
                return
    except OSError as error:
        raise _cut_off(path, error) from error


def _cut_off(name: str | Path, error: OSError) -> DocumentError:
    return DocumentError(f"cannot read {name} to its end: {error.strerror}. Check the file and try again")


def _is_file(stream: BinaryIO) -> bool:
    try:
        return stat.S_ISREG(os.fstat(stream.fileno()).st_mode)
    except (OSError, AttributeError):  # it has no descriptor
        return False


def _is_pipe(stream: io.FileIO) -> bool:
    return stat.S_ISFIFO(os.fstat(stream.fileno()).st_mode)


def _reader(stream: BinaryIO, name: str | Path, tick: Callable[[], None]) -> Callable[[int], bytes]:
    """Return a function that reads up to `size` bytes, and none at the end only."""
    raw = stream.raw if isinstance(stream, io.BufferedReader) else stream
    if not isinstance(raw, io.FileIO):
        # Its descriptor may not be readable although it has more data (TLS, decompression).
        return lambda size: stream.read(size) or b""
    if _is_file(raw):  # it never waits
        return lambda size: stream.read(size) or b""
    waiting = select.poll()
    waiting.register(raw, select.POLLIN)
    # Waiting for the file before the buffer loses no data: at its end a file is readable.
    once = stream.read1 if isinstance(stream, io.BufferedReader) else raw.read

    # Only a named pipe that `open_file` opened can be without a writer, and only until one has come.
    awaits_writer = _is_pipe(raw) and not os.get_blocking(raw.fileno())
    until = time.monotonic() + _WRITER_SECONDS

    def read(size: int) -> bytes:
        nonlocal awaits_writer
        while True:
            while not waiting.poll(TICK_SECONDS * 1_000):
                tick()
                if not awaits_writer:
                    continue
                piece = once(size)
                # Without data, this is None if there is a writer, and empty if there is none.
                awaits_writer = piece == b""
                if piece:
                    return piece
                if awaits_writer and time.monotonic() > until:
                    raise DocumentError(
                        f"{name} is a named pipe, and no program opened it for writing within "
                        f"{_WRITER_SECONDS:g} s: start the writer first, or name a file"
                    )
            awaits_writer = False
            piece = once(size)
            if piece is not None:  # None: another reader of the pipe took the data
                return piece

    return read


def wait_for(work: Callable[[], _T], tick: Callable[[], None], stopped: threading.Event) -> _T:
    """Return what `work` returns, and raise what it raises. It runs on a thread that keeps no process from
    ending. `tick` is called every 0.1 s. If it raises, `stopped` is set, and `work` should end soon."""
    outcome: Future[_T] = Future()

    def act() -> None:
        # The boundary of the thread: the caller gets every exception.
        try:
            outcome.set_result(work())
        except BaseException as error:
            outcome.set_exception(error)

    thread = threading.Thread(target=act, name="rlm-fetch", daemon=True)
    thread.start()
    try:
        while thread.is_alive():
            thread.join(TICK_SECONDS)
            tick()
    except BaseException:
        stopped.set()
        thread.join(_END_SECONDS)
        raise
    return outcome.result()


def unreadable(path: str | Path, error: OSError) -> DocumentError:
    """Return the error for a path that the system refuses."""
    return DocumentError(f"cannot read {path}: {error.strerror}. Check its permissions or name another file")


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
