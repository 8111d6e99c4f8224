"""`--out`: write a command's text to a file instead of stdout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rlm.errors import UsageError

__all__ = ["OutOption", "write_output"]


def _check_out(out: Path | None) -> Path | None:
    """Raise UsageError if `out` is not writable. Runs before any model call."""
    if out is None:
        return None
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder. Name a file")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise UsageError(f"cannot write --out {out}. Check its folder and its permissions")
    return out


OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="The file to write.", show_default="stdout", callback=_check_out
    ),
]


def write_output(text: str, out: Path | None) -> None:
    """Print `text`, or write it to `out` atomically. A device or a pipe is written directly."""
    from rlm.escaping import encodable

    if out is None:
        typer.echo(text)
        return
    data = encodable(text) + "\n"
    if out.exists() and not out.is_file():
        out.write_text(data, encoding="utf-8")
        return
    file = out.resolve()
    temporary = file.with_name(f".{file.name}.part")
    try:
        temporary.write_text(data, encoding="utf-8")
        temporary.replace(file)
    finally:
        temporary.unlink(missing_ok=True)
