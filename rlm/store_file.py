"""The SQLite file that the journal and the prompt segments share: its default path and its file modes."""

from __future__ import annotations

import contextlib
import errno
import os
from collections.abc import Mapping
from pathlib import Path

__all__ = ["default_store", "keep_private", "leads_out", "make_private_file"]


def default_store(env: Mapping[str, str]) -> Path:
    """Return `$XDG_STATE_HOME/rlm/rlm.db`, or `~/.local/state/rlm/rlm.db` without that variable.

    The XDG specification says that a relative XDG_STATE_HOME must be ignored.
    """
    state = Path(env.get("XDG_STATE_HOME", ""))
    if not state.is_absolute():
        state = Path(env.get("HOME") or Path.home()) / ".local" / "state"
    return state / "rlm" / "rlm.db"


def leads_out(path: Path) -> bool:
    """Return whether a path is a link to a place outside of its own folder. Whoever made the folder may have
    planted it where a command writes."""
    folder = path.parent.resolve()
    return path.is_symlink() and folder != Path("/dev") and not path.resolve().is_relative_to(folder)


def make_private_file(path: Path) -> None:
    """Create the file (0600) and its missing parent folders (0700), because SQLite would use laxer modes.

    Leaves an existing file as it is: it may not be a store. Raises OSError.
    """
    missing = []
    folder = path.parent
    while not folder.exists():
        missing.append(folder)
        folder = folder.parent
    for new in reversed(missing):
        new.mkdir(mode=0o700, exist_ok=True)
    # Never open an existing file: closing it would drop the locks that SQLite holds on it in this process.
    with contextlib.suppress(FileExistsError):
        os.close(os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600))
    if not path.exists():
        raise FileNotFoundError(errno.ENOENT, "it is a link to a file that does not exist", str(path))


def keep_private(path: Path) -> None:
    """Remove all access for others from a store's file and the `-wal` and `-shm` files next to it.

    SQLite gives new `-wal` and `-shm` files the mode of the main file. Raises OSError.
    """
    for file in (path, path.with_name(path.name + "-wal"), path.with_name(path.name + "-shm")):
        if file.exists() and file.stat().st_mode & 0o077:
            file.chmod(0o600)
