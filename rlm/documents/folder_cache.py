"""A cache of folders: contexts and indexes that are made once and read by many runs.

    $XDG_CACHE_HOME/rlm/contexts/
        3f…/            an entry, complete on disk before it has this name
        part-…/         an entry that is being made, or removed

A process that makes or uses a folder holds a lock on it, which the kernel releases when the process ends. A
folder that can be locked exclusively is not in use. Entries hold the text of documents, so folders have mode
0700 and files 0600.
"""

from __future__ import annotations

import errno
import fcntl
import os
import secrets
import shutil
import stat
import tempfile
from collections.abc import Mapping
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path

__all__ = ["FolderCache", "Lease"]

_MOST_BYTES = 4 << 30
_PART = "part-"
_TRIES = 8
"""How often a new folder is made, if other processes remove it before it is locked."""


@dataclass(frozen=True, slots=True)
class Lease:
    """A folder in use. No process removes it until `close`. With `is_own` it is no entry and belongs to this
    process alone: `close` removes it."""

    folder: Path
    descriptor: int
    is_own: bool = False

    def close(self) -> None:
        """Release the folder. Call it once."""
        if self.is_own:
            shutil.rmtree(self.folder, ignore_errors=True)
        with suppress(OSError):
            os.close(self.descriptor)


class FolderCache:
    """Folders by key below `top`, up to `most_bytes`. The least recently used ones are removed first, those
    in use stay. Safe for several processes."""

    def __init__(self, top: Path, most_bytes: int = _MOST_BYTES) -> None:
        self.top = top
        self._most_bytes = most_bytes

    @classmethod
    def of_user(cls, name: str, env: Mapping[str, str], most_bytes: int = _MOST_BYTES) -> FolderCache:
        """Return the cache `name` in `$XDG_CACHE_HOME/rlm`, else in `~/.cache/rlm`. A relative XDG_CACHE_HOME
        is ignored, as the XDG specification demands."""
        home = Path(env.get("XDG_CACHE_HOME", ""))
        if not home.is_absolute():
            home = Path(env.get("HOME") or Path.home()) / ".cache"
        return cls(home / "rlm" / name, most_bytes)

    def find(self, key: str) -> Lease | None:
        """Return an entry, in use until its lease is closed; None if there is none."""
        lease = _lock(self.top / key, fcntl.LOCK_SH)
        if lease is not None:
            with suppress(OSError):
                os.utime(lease.descriptor)  # its time is that of the last use
        return lease

    def begin(self) -> Lease:
        """Make a folder for a new entry. Raises OSError."""
        self.top.mkdir(mode=0o700, parents=True, exist_ok=True)
        status = self.top.lstat()
        if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is a link or another user's folder", str(self.top))
        self.top.chmod(0o700)
        for left in self.top.glob(f"{_PART}*"):
            self.remove(left)  # a killed process left it
        for _ in range(_TRIES):
            folder = Path(tempfile.mkdtemp(prefix=_PART, dir=self.top))
            if (lease := _lock(folder, fcntl.LOCK_SH)) is not None:
                return replace(lease, is_own=True)
            # Another process took it for one that was left, before it was locked.
            shutil.rmtree(folder, ignore_errors=True)
        raise OSError(errno.EBUSY, "other processes remove new folders", str(self.top))

    def publish(self, lease: Lease, key: str) -> Lease:
        """Make a folder from `begin` the entry `key`. If another process was faster, return the lease
        unchanged: its folder serves this process alone. Raises OSError."""
        for path in lease.folder.rglob("*"):
            if stat.S_ISREG(path.lstat().st_mode):
                with path.open("rb") as file:
                    os.fchmod(file.fileno(), 0o600)
                    os.fsync(file.fileno())  # after a power cut an entry is whole, or absent
        os.utime(lease.descriptor)
        entry = self.top / key
        try:
            lease.folder.rename(entry)
        except OSError as error:
            if error.errno in (errno.EEXIST, errno.ENOTEMPTY):
                return lease
            raise
        self._make_room()
        return replace(lease, folder=entry, is_own=False)

    def remove(self, folder: Path) -> bool:
        """Remove a folder that is not in use, and return whether that was so."""
        lease = _lock(folder, fcntl.LOCK_EX)
        if lease is None:
            return False
        try:
            # Under another name first: what is half removed is no entry.
            doomed = folder.rename(self.top / f"{_PART}{secrets.token_hex(8)}")
            shutil.rmtree(doomed, ignore_errors=True)
        except OSError:
            return False
        finally:
            lease.close()
        return True

    def _make_room(self) -> None:
        entries = []
        for folder in self.top.iterdir():
            with suppress(OSError):
                if not folder.name.startswith(_PART):
                    size = sum(path.lstat().st_size for path in folder.rglob("*"))
                    entries.append((folder.stat().st_mtime_ns, size, folder))
        total = sum(size for _, size, _ in entries)
        for _, size, folder in sorted(entries):
            if total <= self._most_bytes:
                return
            if self.remove(folder):
                total -= size


def _lock(folder: Path, how: int) -> Lease | None:
    """Lock a folder; None if it is missing, not private to this user, or locked."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    with suppress(OSError):
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
            fcntl.flock(descriptor, how | fcntl.LOCK_NB)
            # It may have been removed or replaced before the lock was taken.
            if folder.lstat().st_ino == status.st_ino:
                return Lease(folder, descriptor)
    os.close(descriptor)
    return None
