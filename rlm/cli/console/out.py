"""`--out`: write a command's output to a file instead of stdout."""

from __future__ import annotations

import os
import secrets
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Annotated, BinaryIO

import typer

from rlm.errors import UsageError
from rlm.store_file import leads_out

__all__ = ["OutOption", "check_out", "open_output", "write_output"]

_NEW = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC


def check_out(out: Path | None) -> Path | None:
    """Raise UsageError if `out` is not writable. Runs before any model call."""
    if out is None:
        return None
    if leads_out(out):
        raise UsageError(f"--out {out} is a link to {out.resolve()}. Give that name, if you mean it")
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder. Name a file")
    if not os.access(out.resolve().parent if _is_file(out) else out, os.W_OK):
        raise UsageError(f"cannot write --out {out}. Check its folder and its permissions")
    return out


OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="The file to write.", show_default="stdout", callback=check_out
    ),
]


def write_output(text: str, out: Path | None) -> None:
    """Print `text`, or write it to `out`."""
    from rlm.escaping import encodable

    if out is None:
        typer.echo(text)
        return
    with open_output(out) as file:
        file.write((encodable(text) + "\n").encode("utf-8"))


@contextmanager
def open_output(out: Path, *, private: bool = False) -> Iterator[BinaryIO]:
    """Yield a file that replaces `out` when the block ends, or is removed if the block raises.

    The result has the mode of the file that it replaces; with `private` only its owner can read and write it.
    A device or a pipe is written directly.
    """
    if not _is_file(out):
        with out.open("wb") as stream:
            yield stream
        return
    file = out.resolve()
    # Nobody can put a link where the name cannot be known.
    temporary = file.with_name(f".rlm-{secrets.token_hex(8)}.part")
    with os.fdopen(os.open(temporary, _NEW, 0o600 if private else 0o666), "wb") as stream:
        try:
            if not private:
                with suppress(FileNotFoundError):
                    os.fchmod(stream.fileno(), file.stat().st_mode & 0o777)
            yield stream
            stream.flush()
            temporary.replace(file)
        finally:
            temporary.unlink(missing_ok=True)


def _is_file(out: Path) -> bool:
    """Return whether `out` is a regular file, or will be one."""
    return out.is_file() or not out.exists()
