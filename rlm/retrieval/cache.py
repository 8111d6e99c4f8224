"""The cache of built indexes: one folder each, complete or absent. The least recently used ones are
evicted."""

from __future__ import annotations

import errno
import os
import re
import shutil
import tempfile
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

__all__ = ["IndexCache", "default_index_cache"]

MAX_BYTES = 4 * 2**30
_PARTIAL = "part-"
_STALE_SECONDS = 6 * 3_600.0
_KEY = re.compile(r"[0-9a-z-]{1,120}")


def default_index_cache(env: Mapping[str, str]) -> Path:
    """Return `$XDG_CACHE_HOME/rlm/index`, else `~/.cache/rlm/index`. A relative XDG_CACHE_HOME is ignored, as
    the XDG specification requires."""
    cache = Path(env.get("XDG_CACHE_HOME", ""))
    if not cache.is_absolute():
        cache = Path(env.get("HOME") or Path.home()) / ".cache"
    return cache / "rlm" / "index"


class IndexCache:
    """Folders by key below `top`. Only their owner can read them (0700), because they hold the words of the
    texts.

    Safe for several processes: an entry is built in a folder of its own and renamed into place. When two
    processes build the same entry, the later one uses the result of the earlier.
    """

    def __init__(self, top: Path, max_bytes: int = MAX_BYTES) -> None:
        self.top = top
        self._max_bytes = max_bytes

    def find(self, key: str) -> Path | None:
        """Return the folder of an entry and mark it as just used; None if there is none."""
        folder = self._folder(key)
        if not folder.is_dir():
            return None
        with suppress(OSError):
            os.utime(folder)
        return folder

    def begin(self) -> Path:
        """Create an empty folder to build in. Raises OSError."""
        self.top.mkdir(mode=0o700, parents=True, exist_ok=True)
        if self.top.lstat().st_uid != os.geteuid():
            raise PermissionError(errno.EPERM, "it is another user's folder", str(self.top))
        self.top.chmod(0o700)
        self._remove_stale()
        return Path(tempfile.mkdtemp(prefix=_PARTIAL, dir=self.top))

    def finish(self, building: Path, key: str) -> Path:
        """Turn a built folder into the entry `key`, and evict the oldest others beyond the size limit. Raises
        OSError."""
        for file in building.rglob("*"):
            file.chmod(0o700 if file.is_dir() else 0o600)
        folder = self._folder(key)
        try:
            building.rename(folder)
        except OSError:
            # Another process was faster, and its entry is equivalent.
            if not folder.is_dir():
                raise
            shutil.rmtree(building, ignore_errors=True)
        self._make_room(folder)
        return folder

    def drop(self, folder: Path) -> None:
        """Remove a damaged or unfinished entry."""
        shutil.rmtree(folder, ignore_errors=True)

    def _folder(self, key: str) -> Path:
        if not _KEY.fullmatch(key):
            raise ValueError(f"{key!r} is no key of an index")
        return self.top / key

    def _remove_stale(self) -> None:
        """Remove folders that killed processes left unfinished."""
        now = time.time()
        for folder in self.top.glob(f"{_PARTIAL}*"):
            with suppress(OSError):
                newest = max(file.stat().st_mtime for file in (folder, *folder.rglob("*")))
                if now - newest > _STALE_SECONDS:
                    shutil.rmtree(folder, ignore_errors=True)

    def _make_room(self, kept: Path) -> None:
        entries = []
        for folder in self.top.iterdir():
            with suppress(OSError):
                if folder.is_dir() and not folder.name.startswith(_PARTIAL):
                    size = sum(file.stat().st_size for file in folder.rglob("*"))
                    entries.append((folder == kept, folder.stat().st_mtime, folder, size))
        total = sum(size for *_, size in entries)
        for is_kept, _, folder, size in sorted(entries):
            if total <= self._max_bytes or is_kept:
                break
            self.drop(folder)
            total -= size
