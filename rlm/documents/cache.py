"""The cache of contexts: unchanged files are not read again.

The folder of a context holds its body, index, manifest.json, and entry.json with the facts to check. The body
of a large plain file is a link to it, and source.json holds its facts.
"""

from __future__ import annotations

import hashlib
import json
import os
import stat
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

from rlm.documents.folder import files_of
from rlm.documents.folder_cache import FolderCache, Lease
from rlm.documents.formats.piece import Problem
from rlm.documents.formats.plugins import installed_readers
from rlm.documents.loaded import Loaded
from rlm.documents.sources.source import PathSource, Source
from rlm.sandbox.context.source_file import SourceFacts
from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.text.body import (
    BODY_NAME,
    FORMAT,
    INDEX_NAME,
    MANIFEST_NAME,
    SOURCE_NAME,
    BodyError,
)
from rlm.version import __version__, has_extra

__all__ = ["ContextCache", "default_cache"]

_FORM = 6
"""The version of the rendering: increase it when the same files give another body."""
_MOST_BYTES = 8 << 30
_LEAST_BYTES = 4 << 20
"""Smaller inputs are not cached: reading them is as fast as a look-up."""
_SETTLED_SECONDS = 2.0
_EXTRAS = ("7z", "ocr", "parquet", "vision")
"""By which more of the same files can be read."""
_ENTRY = "entry.json"


def default_cache(env: Mapping[str, str]) -> ContextCache:
    """Return the user's cache."""
    return ContextCache(FolderCache.of_user("contexts", env, _MOST_BYTES))


class ContextCache:
    """Contexts in `folders`. Inputs under `least_bytes` are not cached.

    No method raises OSError: a run works without its cache.
    """

    def __init__(self, folders: FolderCache, least_bytes: int = _LEAST_BYTES) -> None:
        self.folders = folders
        self._least_bytes = least_bytes

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
                    status = Path(path).stat()
                    if not stat.S_ISREG(status.st_mode):
                        _add(digest, name, status.st_mode)
                        if stat.S_ISFIFO(status.st_mode) and path == str(source.path):
                            return None
                        continue
                    total += status.st_size
                    latest = max(latest, status.st_mtime)
                    facts = (status.st_size, status.st_mtime_ns, status.st_ino, status.st_dev)
                    _add(digest, os.path.realpath(path), name, *facts)
                    if path == str(source.path):
                        # A database may have changes in a log. In a folder the log is a file itself.
                        log = Path(f"{path}-wal")
                        _add(digest, log.is_file() and log.stat().st_size > 0)
            except OSError:
                return None  # `load` reports the error
        if total < self._least_bytes or latest > time.time() - _SETTLED_SECONDS:
            return None
        _add(digest, installed_readers(), list(filter(has_extra, _EXTRAS)))
        return digest.hexdigest()

    def find(self, key: str) -> Loaded | None:
        """Return the context under `key`, checked, in use until its lease is closed; None if there is none.

        A damaged context is removed.
        """
        lease = self.folders.find(key)
        if lease is None:
            return None
        try:
            entry = json.loads((lease.folder / _ENTRY).read_bytes())
            _check(lease.folder, entry)
            return replace(_loaded(lease.folder, entry), lease=lease)
        except (OSError, ValueError, KeyError, TypeError, BodyError, SandboxError):
            lease.close()
            self.folders.remove(lease.folder)
            return None

    def begin(self) -> Lease | None:
        """Make a private folder for a new context, or return None. Closing the lease removes the folder,
        unless `keep` was called."""
        try:
            return self.folders.begin()
        except OSError:
            return None

    def keep(self, key: str, loaded: Loaded, lease: Lease) -> Loaded:
        """Publish the context in a folder from `begin` under `key`.

        If another process published it first, this run uses its own copy, which its lease removes.
        """
        with suppress(OSError):
            (lease.folder / _ENTRY).write_text(json.dumps(_entry(lease.folder, loaded)), "utf-8")
            lease = self.folders.publish(lease, key)
        return replace(loaded, context=replace(loaded.context, folder=lease.folder), lease=lease)


def _files(source: PathSource, tick: Callable[[], None]) -> Iterator[tuple[str, str]]:
    """Yield path and name of every file that `load` would read."""
    if not source.path.is_dir():
        yield str(source.path), source.path.name
        return
    for found in files_of(source.path, source.exclude, tick):
        if found.problem is None:
            yield found.path, found.name


def _add(digest: Any, *facts: object) -> None:
    digest.update(json.dumps(facts, default=str).encode("utf-8", "surrogateescape") + b"\n")


def _entry(folder: Path, loaded: Loaded) -> dict[str, Any]:
    names = [BODY_NAME, INDEX_NAME, MANIFEST_NAME]
    if (folder / SOURCE_NAME).exists():
        names.append(SOURCE_NAME)
    return {
        "files": {name: _facts(folder / name) for name in names},
        "body_sha256": loaded.context.sha256,
        "table_bytes": loaded.context.table_bytes,
        "body_replaced": loaded.context.replaced,
        "replaced": loaded.replaced,
        "problems": [asdict(problem) for problem in loaded.problems],
    }


def _check(folder: Path, entry: dict[str, Any]) -> None:
    """Raise ValueError if the files changed since they were written, or the file that is read in place."""
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


def _loaded(folder: Path, entry: dict[str, Any]) -> Loaded:
    context = ContextFile.of(folder, replaced=entry["body_replaced"], table_bytes=entry["table_bytes"])
    if context.sha256 != entry["body_sha256"]:
        raise ValueError("another body")
    return Loaded(context, tuple(Problem(**one) for one in entry["problems"]), entry["replaced"])


def _facts(path: Path) -> list[int]:
    status = path.lstat()
    return [status.st_size, status.st_mtime_ns, status.st_ino]
