"""Where a store lies, and how its file is kept private: that of the segments, and of the runs' journal in
the same file."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from rlm.prompts.segments.errors import StoreUnavailable

__all__ = ["default_store", "keep_private", "make_private_file", "store_url"]

_DRIVERS = {"sqlite": "sqlite", "postgresql": "postgresql+psycopg", "postgres": "postgresql+psycopg"}


def default_store(env: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/rlm/rlm.db`, else `~/.local/state/rlm/rlm.db`: segments and journal share the file,
    with tables of their own. A relative XDG_STATE_HOME does not count (the XDG rules say so)."""
    state = Path(env.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path(env.get("HOME") or Path.home()) / ".local" / "state"
    return state / "rlm" / "rlm.db"


def store_url(path_or_url: str | Path) -> URL:
    """The URL of a file's path, or of a URL given as such; whatever driver it names, ours is used.

    Raises StoreUnavailable.
    """
    text = os.fspath(path_or_url)
    if "://" not in text:
        return URL.create("sqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise StoreUnavailable(
            "the store's URL can't be read: give a path, or postgresql://user@host/name"
        ) from error
    backend = url.drivername.partition("+")[0]
    if backend not in _DRIVERS:
        raise StoreUnavailable(
            f"segments can't be kept in a {backend!r} database: give a path (SQLite) or postgresql://…"
        )
    return url.set(drivername=_DRIVERS[backend])


def make_private_file(path: Path) -> None:
    """Make the file (0600) and the folders above it (0700) before SQLite would with laxer modes. What
    exists is left alone: it may not be a store at all. Raises OSError."""
    missing = []
    folder = path.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=0o700, exist_ok=True)
    # Never a file that exists: closing it would drop the locks that SQLite holds on it in this process.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))


def keep_private(path: Path) -> None:
    """Take a store's file, now known to be one, away from everybody but its owner. SQLite gives the files
    it makes beside it the same mode. Raises OSError."""
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)
