"""The standard streams, made safe: they may be closed, full or without a reader."""

from __future__ import annotations

import io
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, TextIO, cast

from rlm.escaping import terminal_text

__all__ = ["STDOUT", "StdoutFailed", "discard_stdout", "prepare_streams", "unfiltered"]

STDIN, STDOUT, STDERR = range(3)


class StdoutFailed(OSError):
    """Raised when stdout cannot be written, for example because its disk is full."""


class _Filtered(io.TextIOWrapper):
    """A stream that drops control characters and direction marks, wherever the text came from.

    A usage error repeats the name of a file, and a traceback the text of a document.
    """

    def write(self, text: str) -> int:
        self.write_unfiltered(terminal_text(text))
        return len(text)

    def write_unfiltered(self, text: str) -> int:
        """Write colours and cursor movements of our own."""
        with _told_apart():
            return super().write(text)

    def flush(self) -> None:
        with _told_apart():
            super().flush()


@contextmanager
def _told_apart() -> Iterator[None]:
    """Raise StdoutFailed for a failed write, so that it is not taken for a failure of a socket or a file."""
    try:
        yield
    except BrokenPipeError:
        raise
    except OSError as error:
        raise StdoutFailed(error.errno, error.strerror) from error


class _Forgiving(_Filtered):
    """A stderr that drops what it cannot write: a progress line must never cost the answer."""

    def write_unfiltered(self, text: str) -> int:
        try:
            return super().write_unfiltered(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return


class _Unfiltered:
    """Writes to a filtered stream without its filter. Everything else is the stream's."""

    def __init__(self, stream: _Filtered) -> None:
        self._stream = stream

    def write(self, text: str) -> int:
        return self._stream.write_unfiltered(text)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def unfiltered(stream: TextIO) -> TextIO:
    """Return the stream for a console that writes colours. Its text must have passed `terminal_text`."""
    return cast(TextIO, _Unfiltered(stream)) if isinstance(stream, _Filtered) else stream


def prepare_streams() -> None:
    """Make stdin, stdout and stderr safe to use. Text loses its control characters, bytes do not.

    A closed stdin reads as empty. A closed or full stdout raises OSError on a write, but no character does.
    stderr never raises.
    """
    # The next file that is opened, for example the journal, would get the number of a closed descriptor.
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            # Read-only, so that a write to a closed stdout raises.
            os.open(os.devnull, os.O_WRONLY if descriptor == STDERR else os.O_RDONLY)
    if sys.stdin is None:
        sys.stdin = open(STDIN, encoding="utf-8", closefd=False)  # noqa: SIM115
    if sys.stdout is None:
        sys.stdout = _Filtered(open(STDOUT, "wb", closefd=False), encoding="utf-8", errors="replace")  # noqa: SIM115
    elif isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout = _Filtered(
            sys.stdout.buffer,
            encoding=sys.stdout.encoding,
            errors="replace",
            line_buffering=sys.stdout.line_buffering,
        )
    sys.stderr = _Forgiving(
        io.BufferedWriter(io.FileIO(STDERR, "w", closefd=False)),
        encoding=getattr(sys.stderr, "encoding", None) or "utf-8",
        errors="backslashreplace",
        line_buffering=True,
    )


def discard_stdout() -> None:
    """Drop what is buffered for stdout: the interpreter would try to write it again at exit."""
    null = os.open(os.devnull, os.O_WRONLY)
    os.dup2(null, STDOUT)
    os.close(null)
