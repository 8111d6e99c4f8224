"""The standard streams, made safe: they may be closed, full or without a reader."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["STDOUT", "discard_stdout", "prepare_streams"]

STDIN, STDOUT, STDERR = range(3)


class _Forgiving(io.TextIOWrapper):
    """A stderr that drops what it cannot write: a progress line must never cost the answer."""

    def write(self, text: str) -> int:
        try:
            return super().write(text)
        except OSError:
            return len(text)

    def flush(self) -> None:
        try:
            super().flush()
        except OSError:
            return


def prepare_streams() -> None:
    """Make stdin, stdout and stderr safe to use.

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
        sys.stdout = open(STDOUT, "w", encoding="utf-8", closefd=False)  # noqa: SIM115
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")
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
