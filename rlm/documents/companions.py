"""Files that belong to a database beside them: SQLite's and DuckDB's logs of changes (WAL)."""

from __future__ import annotations

import os
import stat
from io import FileIO
from pathlib import Path

from rlm.documents.blocks import open_file
from rlm.documents.formats.registry import FORMATS, DocumentFormat, format_of

__all__ = ["companion_facts", "is_companion", "open_companion"]

_ENDS = {row.companion: row for row in FORMATS if row.companion} | {"-shm": format_of("sqlite")}
"""How names of logs end, and that of the index of SQLite's log, which holds nothing of its own."""
_FIRST = 64


def open_companion(path: Path, kind: str) -> FileIO | None:
    """Open the log of a database; an empty file if it has none. Return None for a kind that has no logs.
    Raises OSError."""
    row = format_of(kind)
    if not row.companion:
        return None
    try:
        opened = open_file(_beside(path, row))
    except FileNotFoundError:
        return open_file(Path(os.devnull))
    if not stat.S_ISREG(os.fstat(opened.fileno()).st_mode):
        opened.close()
        return open_file(Path(os.devnull))
    return opened


def is_companion(path: Path) -> bool:
    """Return whether a file is the log of a database, or its index, which is read with the database."""
    for end, row in _ENDS.items():
        if path.name.endswith(end) and path.name != end:
            try:
                with open_file(path.with_name(path.name[: -len(end)])) as owner:
                    is_file = stat.S_ISREG(os.fstat(owner.fileno()).st_mode)
                    first = owner.read(_FIRST) if is_file else b""
            except OSError:
                continue
            if row.magic is not None and first and row.magic.match(first):
                return True
    return False


def companion_facts(path: Path) -> list[tuple[int, int]]:
    """Return what tells that a log of `path` has changed: the sizes and times of those that are there."""
    found = []
    for row in _ENDS.values():
        try:
            status = _beside(path, row).stat()
        except OSError:
            continue
        found.append((status.st_size, status.st_mtime_ns))
    return found


def _beside(path: Path, row: DocumentFormat) -> Path:
    return path.with_name(path.name + row.companion)
