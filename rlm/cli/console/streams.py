"""The three standard streams as a command may find them: closed, full, without a reader."""

from __future__ import annotations

import io
import os
import sys

__all__ = ["STDOUT", "discard_stdout", "prepare_streams"]

STDIN, STDOUT, STDERR = range(3)


class _Forgiving(io.TextIOWrapper):
    """stderr, of which what can't be written is dropped: what a run says beside its answer never costs it."""

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
    """Make stdin, stdout and stderr safe to use. A closed stdin is an empty one. A stdout that is closed or
    full raises OSError when it is written, and no character does; stderr never raises."""
    # A descriptor left closed would be given to the next file that is opened: to the journal, say.
    for descriptor in (STDIN, STDOUT, STDERR):
        try:
            os.fstat(descriptor)
        except OSError:
            # Read-only: whoever writes to a stdout that was closed must hear of it.
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
    """Let what is still buffered for stdout go nowhere: the interpreter would try it once more at its end."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, STDOUT)
    os.close(nowhere)
