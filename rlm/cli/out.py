"""`--out`: where the text that a command makes goes, if not to stdout."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

__all__ = ["OutOption", "written"]

OutOption = Annotated[
    Path | None,
    typer.Option("--out", "-o", metavar="FILE", help="Write it there.", show_default="stdout"),
]


def written(text: str, out: Path | None) -> None:
    """Print `text`, or put it into the file `out`, whole or not at all."""
    from rlm.models.messages import encodable

    if out is None:
        typer.echo(text)
        return
    beside = out.with_name(f".{out.name}.part")
    try:
        beside.write_text(encodable(text) + "\n", encoding="utf-8")
        beside.replace(out)
    finally:
        beside.unlink(missing_ok=True)
