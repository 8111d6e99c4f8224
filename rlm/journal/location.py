"""Where a journal lies: the default place, and how a store's file is kept private."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Mapping
from pathlib import Path

from sqlalchemy import URL, make_url
from sqlalchemy.exc import ArgumentError

from rlm.errors import JournalError

__all__ = ["default_store", "keep_private", "make_private_file", "store_url"]

_FORMS = "a path, sqlite:///PATH or postgresql://USER@HOST/NAME"
_DRIVERS = {
    "sqlite": "sqlite+aiosqlite",
    "sqlite+aiosqlite": "sqlite+aiosqlite",
    "postgres": "postgresql+psycopg",
    "postgresql": "postgresql+psycopg",
    "postgresql+psycopg": "postgresql+psycopg",
}


def default_store(env: Mapping[str, str]) -> Path:
    """`$XDG_STATE_HOME/rlm/rlm.db`, else `~/.local/state/rlm/rlm.db`. A relative XDG_STATE_HOME does not
    count (the XDG rules say so)."""
    state = Path(env.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path(env.get("HOME") or Path.home()) / ".local" / "state"
    return state / "rlm" / "rlm.db"


def store_url(path_or_url: str | Path) -> URL:
    """The database URL of a file's path, or of a URL (`postgresql://…`). Raises JournalError."""
    text = os.fspath(path_or_url)
    if "://" not in text:
        return URL.create("sqlite+aiosqlite", database=str(Path(text).expanduser().absolute()))
    try:
        url = make_url(text)
    except ArgumentError as error:
        raise JournalError(f"the journal's URL can't be read; give {_FORMS}") from error
    driver = _DRIVERS.get(url.drivername)
    if driver is None:
        raise JournalError(f"the journal can't be kept in {url.drivername}; give {_FORMS}")
    return url.set(drivername=driver)


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
