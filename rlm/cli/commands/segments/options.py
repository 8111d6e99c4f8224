"""The options of `rlm segments`, and how a command reads their values."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.errors import UsageError

if TYPE_CHECKING:
    from rlm.prompts.segments import SegmentStore

__all__ = [
    "Content",
    "File",
    "IfVersion",
    "Json",
    "Note",
    "SegmentId",
    "Tier",
    "Version",
    "content_from",
    "number_or_label",
    "open_store",
    "read_text",
]

Json = Annotated[bool, typer.Option("--json", help="Print JSON.")]
SegmentId = Annotated[
    str, typer.Argument(metavar="ID", help="The segment's id, or its first characters.", show_default=False)
]
Content = Annotated[str | None, typer.Option(help="The text of the segment.", show_default=False)]
File = Annotated[
    str | None, typer.Option(help="A file with the text of the segment, or - for stdin.", show_default=False)
]
Tier = Annotated[int | None, typer.Option(min=0, help="Level of detail; 0 is the base.", show_default=False)]
Note = Annotated[str, typer.Option(help="The reason for this version; stored with it.", show_default=False)]
IfVersion = Annotated[
    int | None,
    typer.Option(help="Write only if this is still the newest version.", show_default=False),
]
Version = Annotated[str, typer.Argument(metavar="VERSION", help="A number or a label.", show_default=False)]


def open_store(store: str | None) -> SegmentStore:
    """Open the store for a `with` block."""
    from rlm.prompts.segments import SegmentStore

    return SegmentStore.open(store)


def content_from(content: str | None, file: str | None) -> str | None:
    """Return the text of --content or --file, None if neither is given. Raises UsageError."""
    if content is not None and file is not None:
        raise UsageError("--content cannot be combined with --file: give one of them")
    return content if file is None else read_text(file)


def read_text(file: str) -> str:
    """Read a file, or stdin for `-`. Raises UsageError if it is unreadable or not UTF-8."""
    name = "stdin" if file == "-" else file
    try:
        return (sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()).decode()
    except OSError as error:
        raise UsageError(f"cannot read {name}: {error.strerror}; check the path") from None
    except UnicodeDecodeError:
        raise UsageError(f"{name} is not UTF-8 text: convert it first") from None


def number_or_label(version: str) -> int | str:
    """Return the version's number if it is one, else the label."""
    return int(version) if version.isascii() and version.isdigit() else version
