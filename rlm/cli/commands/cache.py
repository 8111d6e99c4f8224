"""`rlm cache`: how large the caches of texts and indexes are, and how to empty them."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Annotated, Literal

import typer

from rlm.documents.folder_cache import FolderCache
from rlm.status import plural

__all__ = ["cache"]

_CACHES = {"contexts": "converted texts", "index": "search indexes"}


def cache(
    action: Annotated[
        Literal["clear"] | None,
        typer.Argument(
            metavar="[clear]", help="clear: empty them. What a run uses stays.", show_default=False
        ),
    ] = None,
) -> None:
    """Show how large the caches of converted texts and search indexes are, or empty them.

    \b
    Examples:
      rlm cache
      rlm cache clear
    """
    for name, what in _CACHES.items():
        folders = FolderCache.of_user(name, os.environ)
        entries = list(_entries(folders.top))
        if action == "clear":
            removed = sum(folders.remove(entry) for entry in entries)
            typer.echo(f"{what}: removed {removed:,} of {plural(len(entries), 'entry', 'entries')}")
        else:
            size = sum(map(_size, entries))
            typer.echo(
                f"{what}: {size / 1e6:,.1f} MB, {plural(len(entries), 'entry', 'entries')} in {folders.top}"
            )


def _entries(top: Path) -> Iterator[Path]:
    with suppress(OSError):
        yield from sorted(path for path in top.iterdir() if path.is_dir() and not path.is_symlink())


def _size(folder: Path) -> int:
    size = 0
    for path in folder.rglob("*"):
        with suppress(OSError):
            status = path.lstat()
            size += status.st_size if stat.S_ISREG(status.st_mode) else 0
    return size
