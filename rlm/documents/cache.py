"""A cache of contexts: unchanged files are not read again.

    $XDG_CACHE_HOME/rlm/contexts/
        3f…/            one context: body, index, manifest.json, and entry.json with the facts to check. The
                        body of a large plain file is a link to it, and source.json holds its facts
        part-…/         a context being written, locked by its writer

A process that uses or writes a folder holds a lock on it, which the kernel releases when the process ends. A
folder that can be locked exclusively is not in use. The cache holds the text of documents, so folders have
mode 0700 and files 0600.
"""

from __future__ import annotations

import fcntl
import hashlib
import json
import os
import shutil
import stat
import tempfile
import time
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from rlm.documents.encoding import HEAD
from rlm.documents.folder import files_of
from rlm.documents.formats.plugins import installed_readers
from rlm.documents.kind import has_unread_log
from rlm.documents.loaded import CacheLease, GuessedEncoding, Loaded, Skipped
from rlm.documents.sources.source import PathSource, Source
from rlm.lazy_dataclass import dataclass
from rlm.sandbox.context.source_file import SourceFacts, samples
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.in_kernel.body.body import (
    BODY_NAME,
    FORMAT,
    INDEX_NAME,
    MANIFEST_NAME,
    SOURCE_NAME,
    BodyError,
)
from rlm.version import __version__

__all__ = ["ContextCache", "default_cache"]

_FORM = 3
"""The version of the rendering: increase it when the same files give another body."""
_MAX_BYTES = 8 << 30
_MIN_BYTES = 4 << 20
"""Smaller inputs are not cached: reading them is as fast as a look-up."""
_SETTLED_SECONDS = 2.0
_EXTRAS = ("PIL", "onnxruntime", "py7zr", "pyarrow", "rapidocr")
"""Packages of our extras, by which more of the same files can be read."""
_ENTRY = "entry.json"
_PART = "part-"
_TRIES = 8
"""How often a new folder is made, if other processes remove it before it is locked."""


def default_cache(env: Mapping[str, str]) -> ContextCache:
    """Return the cache in `$XDG_CACHE_HOME/rlm`, else in `~/.cache/rlm`. A relative XDG_CACHE_HOME is
    ignored, as the XDG specification demands."""
    home = Path(env.get("XDG_CACHE_HOME", ""))
    if not home.is_absolute():
        home = Path(env.get("HOME") or Path.home()) / ".cache"
    return ContextCache(home / "rlm" / "contexts")


@dataclass(frozen=True, slots=True)
class ContextCache:
    """Contexts in `folder`, up to `most_bytes`; the least recently used are removed first. Inputs under
    `least_bytes` are not cached.

    No method raises OSError: a run works without its cache.
    """

    folder: Path
    most_bytes: int = _MAX_BYTES
    least_bytes: int = _MIN_BYTES

    def key(
        self, sources: Sequence[Source], tick: Callable[[], None], *, pictures: bool = False
    ) -> str | None:
        """Return the key of the context of these sources, or None if it is not cached. With `pictures` the
        context holds pages that a model can look at.

        Strings, streams, small inputs, and files that may still be changing are not cached. `tick` is called
        for each file, and may raise.
        """
        digest = hashlib.sha256(f"{FORMAT} {_FORM} {__version__}\n".encode())
        if pictures:
            _add(digest, "pictures")
        total, latest = 0, 0.0
        for source in sources:
            if not isinstance(source, PathSource):
                return None
            try:
                _add(digest, str(source.path), list(source.exclude), len(sources) > 1)
                for path, name in _files(source, tick):
                    status = path.stat()
                    if not stat.S_ISREG(status.st_mode):
                        _add(digest, name, status.st_mode)
                        if stat.S_ISFIFO(status.st_mode) and path == source.path:
                            return None
                        continue
                    total += status.st_size
                    latest = max(latest, status.st_mtime)
                    facts = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)
                    _add(digest, str(path.resolve()), name, *facts)
                    if path == source.path:
                        # The note about an unread log depends on it. In a folder the log is a file itself.
                        with path.open("rb") as file:
                            _add(digest, has_unread_log(file.read(HEAD), path))
            except OSError:
                return None  # `load` reports the error
        if total < self.least_bytes or latest > time.time() - _SETTLED_SECONDS:
            return None
        _add(digest, installed_readers(), [name for name in _EXTRAS if find_spec(name) is not None])
        return digest.hexdigest()

    def find(self, key: str) -> Loaded | None:
        """Return the context under `key`, checked, in use until its lease is closed; None if there is none.

        A damaged context is removed.
        """
        folder = self.folder / key
        lease = _lock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
        if lease is None:
            return None
        try:
            entry = json.loads((folder / _ENTRY).read_bytes())
            _check(folder, entry)
            loaded = _loaded(folder, entry)
        except (OSError, ValueError, KeyError, TypeError, BodyError, SandboxError):
            lease.close()
            self._remove(folder)
            return None
        with suppress(OSError):
            os.utime(folder / _ENTRY)  # its time is that of the last use
        return replace(loaded, lease=lease)

    def begin(self) -> tuple[Path, CacheLease] | None:
        """Make a private folder for a new context, or return None. Closing the lease removes the folder,
        unless `keep` was called."""
        try:
            self.folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            status = self.folder.lstat()
            if not stat.S_ISDIR(status.st_mode) or status.st_uid != os.geteuid():
                return None
            self.folder.chmod(0o700)
            self._sweep()
            for _ in range(_TRIES):
                folder = Path(tempfile.mkdtemp(prefix=_PART, dir=self.folder))
                lease = _lock(folder, fcntl.LOCK_SH | fcntl.LOCK_NB)
                if lease is not None:
                    return folder, replace(lease, folder=folder)
                # Another process's sweep took the folder before it was locked.
                shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            pass
        return None

    def keep(self, key: str, folder: Path, loaded: Loaded, lease: CacheLease) -> Loaded:
        """Publish the context in `folder` (from `begin`) under `key`.

        If another process published it first, this run uses its own copy, which its lease removes.
        """
        try:
            with _create(folder / _ENTRY) as entry:
                entry.write(json.dumps(_entry(folder, loaded)).encode())
            folder.rename(self.folder / key)
        except OSError:
            return replace(loaded, lease=lease)
        self._make_room()
        context = replace(loaded.context, folder=self.folder / key)
        return replace(loaded, context=context, lease=replace(lease, folder=None))

    def _make_room(self) -> None:
        """Remove the least recently used contexts until the rest fits. Contexts in use stay."""
        found = []
        with suppress(OSError):
            for folder in self.folder.iterdir():
                with suppress(OSError):
                    size = sum(path.lstat().st_size for path in folder.rglob("*"))
                    found.append(((folder / _ENTRY).stat().st_mtime_ns, size, folder))
        total = sum(size for _, size, _ in found)
        for _, size, folder in sorted(found):
            if total <= self.most_bytes:
                return
            if self._remove(folder):
                total -= size

    def _sweep(self) -> None:
        """Remove unfinished folders left by killed processes."""
        for folder in self.folder.glob(f"{_PART}*"):
            self._remove(folder)

    def _remove(self, folder: Path) -> bool:
        lease = _lock(folder, fcntl.LOCK_EX | fcntl.LOCK_NB)
        if lease is None:
            return False
        try:
            # The entry is removed first: a folder without one is not a context.
            (folder / _ENTRY).unlink(missing_ok=True)
            shutil.rmtree(folder, ignore_errors=True)
        except OSError:
            return False
        finally:
            lease.close()
        return True


def _files(source: PathSource, tick: Callable[[], None]) -> Any:
    """Yield path and name of every file that `load` would read."""
    if not source.path.is_dir():
        yield source.path, source.path.name
        return
    for found in files_of(source.path, source.exclude, tick):
        if found.skip_reason is None:
            yield found.path, found.name


def _add(digest: Any, *facts: object) -> None:
    digest.update(json.dumps(facts, default=str).encode("utf-8", "surrogateescape") + b"\n")


def _lock(folder: Path, how: int) -> CacheLease | None:
    """Lock `folder`; None if it is missing, not private to this user, or locked."""
    try:
        descriptor = os.open(folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
    except OSError:
        return None
    try:
        status = os.fstat(descriptor)
        if status.st_uid == os.geteuid() and not stat.S_IMODE(status.st_mode) & 0o077:
            fcntl.flock(descriptor, how)
            # It may have been removed or replaced before the lock was taken.
            if folder.lstat().st_ino == status.st_ino:
                return CacheLease(descriptor)
    except OSError:
        pass
    os.close(descriptor)
    return None


def _create(path: Path) -> Any:
    descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600)
    return os.fdopen(descriptor, "wb")


def _entry(folder: Path, loaded: Loaded) -> dict[str, Any]:
    names = [BODY_NAME, INDEX_NAME, MANIFEST_NAME]
    if (folder / SOURCE_NAME).exists():
        names.append(SOURCE_NAME)
    return {
        "boot": _boot(),
        "files": {name: _facts(folder / name) for name in names},
        "index_sha256": _sha256(folder / INDEX_NAME),
        "body_sha256": loaded.context.sha256,
        "body_samples": _body_samples(folder),
        "table_bytes": loaded.context.table_bytes,
        "body_replaced": loaded.context.replaced,
        "replaced": loaded.replaced,
        "skipped": [asdict(one) for one in loaded.skipped],
        "guessed": [asdict(one) for one in loaded.guessed],
        "notes": list(loaded.notes),
        "remarks": list(loaded.remarks),
        "in_part": list(loaded.in_part),
    }


def _check(folder: Path, entry: dict[str, Any]) -> None:
    """Raise ValueError if the files changed since they were written, or the file that is read in place.

    After a restart of the machine their content is checked too: the last bytes may never have reached the
    disk.
    """
    files = entry["files"]
    if not {BODY_NAME, INDEX_NAME, MANIFEST_NAME} <= set(files):
        raise ValueError("incomplete")
    if files != {name: _facts(folder / name) for name in files}:
        raise ValueError("changed")
    if SOURCE_NAME in files:
        facts = SourceFacts.from_json((folder / SOURCE_NAME).read_bytes())
        descriptor = os.open(folder / BODY_NAME, os.O_RDONLY | os.O_NONBLOCK | os.O_CLOEXEC)
        try:
            if not facts.hold_for(descriptor):
                raise ValueError("changed source")
        finally:
            os.close(descriptor)
    if entry["boot"] != _boot():
        if SOURCE_NAME not in files and not _reached_disk(folder, entry):
            raise ValueError("damaged body")
        if _sha256(folder / INDEX_NAME) != entry["index_sha256"]:
            raise ValueError("damaged index")
        fresh = folder / f"{_ENTRY}.{os.getpid()}"
        with _create(fresh) as file:
            file.write(json.dumps({**entry, "boot": _boot()}).encode())
        fresh.replace(folder / _ENTRY)


def _body_samples(folder: Path) -> str:
    with (folder / BODY_NAME).open("rb") as body:
        return samples(body.fileno(), os.fstat(body.fileno()).st_size)


def _reached_disk(folder: Path, entry: dict[str, Any]) -> bool:
    """Return whether the body is what was written. What never reached the disk is a hole in the file, so a
    body with the same samples and no hole is not read whole."""
    with (folder / BODY_NAME).open("rb") as body:
        size = os.fstat(body.fileno()).st_size
        has_hole = size > 0 and os.lseek(body.fileno(), 0, os.SEEK_HOLE) < size
    if not has_hole and _body_samples(folder) == entry.get("body_samples"):
        return True
    return bool(_sha256(folder / BODY_NAME) == entry["body_sha256"])


def _loaded(folder: Path, entry: dict[str, Any]) -> Loaded:
    context = ContextFile.of(folder, replaced=entry["body_replaced"], table_bytes=entry["table_bytes"])
    if context.sha256 != entry["body_sha256"]:
        raise ValueError("another body")
    return Loaded(
        context,
        tuple(Skipped(**one) for one in entry["skipped"]),
        entry["replaced"],
        tuple(GuessedEncoding(**one) for one in entry["guessed"]),
        tuple(entry["notes"]),
        remarks=tuple(entry["remarks"]),
        in_part=tuple(entry["in_part"]),
    )


def _facts(path: Path) -> list[int]:
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]


def _sha256(path: Path) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def _boot() -> str:
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text("ascii").strip()
    except (OSError, ValueError):
        return ""
