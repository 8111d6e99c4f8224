"""`--out`: where the text that a command makes goes, if not to stdout."""

from __future__ import annotations

import os
from pathlib import Path
from typing import Annotated

import typer

from rlm.errors import UsageError

__all__ = ["OutOption", "written"]


def _checked(out: Path | None) -> Path | None:
    """Before anything is spent. Raises UsageError for what can't be written."""
    if out is None:
        return None
    if out.is_dir():
        raise UsageError(f"--out {out} is a folder: name a file")
    if not os.access(out if out.exists() else out.parent, os.W_OK):
        raise UsageError(f"--out {out} can't be written: check its folder and its permissions")
    return out


OutOption = Annotated[
    Path | None,
    typer.Option(
        "--out", "-o", metavar="FILE", help="Write it there.", show_default="stdout", callback=_checked
    ),
]


def written(text: str, out: Path | None) -> None:
    """Print `text`, or put it into the file `out`, whole or not at all. A device or a pipe is written to."""
    from rlm.models.http.wire_messages import encodable

    if out is None:
        typer.echo(text)
        return
    line = encodable(text) + "\n"
    if out.exists() and not out.is_file():
        out.write_text(line, encoding="utf-8")
        return
    file = out.resolve()
    beside = file.with_name(f".{file.name}.part")
    try:
        beside.write_text(line, encoding="utf-8")
        beside.replace(file)
    finally:
        beside.unlink(missing_ok=True)
