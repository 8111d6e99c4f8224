"""Objects of a storage that fsspec knows (S3, Google Cloud, Azure, …), copied one by one to be read."""

from __future__ import annotations

import logging
import tempfile
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, BinaryIO, TypeVar

from pathspec import GitIgnoreSpec

from rlm.documents.blocks import wait_for
from rlm.documents.formats.piece import NotRead, Problem
from rlm.documents.sources.source import Check, Fetched
from rlm.errors import DocumentError
from rlm.version import install_command

__all__ = ["read_cloud"]

_EXTRA = install_command("cloud")
_MOST_OBJECT = 2 << 30
_MOST_OBJECTS = 100_000
_BLOCK = 1 << 20
_HEAD = 64 * 1024
_GLOB_MARKS = frozenset("*?[")
_LONGEST_CAUSE = 200
_WRAPPERS = frozenset(
    (
        "file", "local", "zip", "tar", "libarchive", "reference", "dir", "simplecache", "filecache",
        "blockcache", "cached", "data", "generic", "asyncwrapper", "http", "https", "git", "jlfs", "dask",
        "root",
    )
)  # fmt: skip
"""Schemes of fsspec that read files of this machine, wrap another scheme, or have a reader of ours."""

_LIBRARIES = ("adlfs", "aiobotocore", "azure", "botocore", "fsspec", "gcsfs", "s3fs")

_T = TypeVar("_T")


def read_cloud(
    url: str, exclude: Sequence[str], spool: Path, tick: Callable[[], None], check: Check
) -> Iterator[Fetched | Problem]:
    """Yield the objects that `url` names: one, those below a prefix, or those that a glob matches.

    Credentials and endpoints are those of the user's environment, as the storage's library finds them. `tick`
    is called every 0.1 s and may raise to stop. Raises DocumentError, which names the extra or the remedy.
    """
    scheme = url.partition("://")[0].lower()
    try:
        import fsspec
    except ImportError:
        raise DocumentError(f"{url} needs the extra for cloud storage: {_EXTRA}") from None
    if scheme in _WRAPPERS or "::" in url or scheme not in fsspec.available_protocols():
        raise DocumentError(f"{url} cannot be read from {scheme}://: use https, s3, gs or az, or give a path")
    for library in _LIBRARIES:
        # Where nothing is set up for logs, they would print tracebacks on stderr.
        logging.getLogger(library).addHandler(logging.NullHandler())
    storage, top = _ask(url, lambda: fsspec.core.url_to_fs(url), tick)
    found = _ask(url, lambda: _list(storage, top), tick)
    if not found:
        raise DocumentError(f"{url} names no object: check the address")
    excluded = GitIgnoreSpec.from_lines(exclude)
    for path, size in found[:_MOST_OBJECTS]:
        name = storage.unstrip_protocol(path)
        if excluded.match_file(path.removeprefix(top).lstrip("/") or path):
            continue
        if size == 0:
            yield Problem("empty", "", "nothing", name)
        elif size > _MOST_OBJECT:
            what, remedy = f"larger than {_MOST_OBJECT >> 30} GB", "download it and give its path"
            yield Problem(what, remedy, "missing", name)
        else:
            try:
                yield _copy(storage, path, name, spool, tick, check)
            except NotRead as refusal:
                yield replace(refusal.problem, document=name)
    if len(found) > _MOST_OBJECTS:
        what = f"read up to its object {_MOST_OBJECTS:,} of {len(found):,}"
        yield Problem(what, "name a smaller prefix", "missing", url)


def _list(storage: Any, top: str) -> list[tuple[str, int]]:
    """Return path and size of each object, by path."""
    if _GLOB_MARKS.intersection(top):
        found = storage.glob(top, detail=True)
    else:
        facts = storage.info(top)
        found = {top: facts} if facts["type"] == "file" else storage.find(top, detail=True)
    return sorted(
        (path, int(facts.get("size") or 0)) for path, facts in found.items() if facts["type"] == "file"
    )


def _copy(storage: Any, path: str, name: str, spool: Path, tick: Callable[[], None], check: Check) -> Fetched:
    file = tempfile.TemporaryFile(dir=spool)  # noqa: SIM115
    try:
        stopped = threading.Event()

        def copy() -> None:
            with storage.open(path, "rb") as source:
                _copy_blocks(source, file, name, stopped, check)

        _ask(name, copy, tick, stopped)
        file.seek(0)
    except BaseException:
        file.close()
        raise
    return Fetched(name, path, file)


def _copy_blocks(source: BinaryIO, file: BinaryIO, name: str, stopped: threading.Event, check: Check) -> None:
    size = 0
    while not stopped.is_set() and (block := source.read(_BLOCK)):
        if not size:
            check(name, block[:_HEAD])
        size += len(block)
        if size > _MOST_OBJECT:
            raise DocumentError(f"{name} grew beyond {_MOST_OBJECT >> 30} GB: download it and give its path")
        file.write(block)
    file.flush()


def _ask(
    name: str, work: Callable[[], _T], tick: Callable[[], None], stopped: threading.Event | None = None
) -> _T:
    """Return what `work` returns. Raises DocumentError for whatever a storage's library raises."""

    def act() -> _T:
        # The boundary of the libraries: each has exceptions of its own.
        try:
            return work()
        except (NotRead, DocumentError):
            raise
        except BaseException as error:
            raise DocumentError(_explain(name, error)) from None

    return wait_for(act, tick, stopped or threading.Event())


def _explain(name: str, error: BaseException) -> str:
    if isinstance(error, ImportError):
        return f"{name} needs the extra for cloud storage: {_EXTRA}"
    if isinstance(error, FileNotFoundError):
        return f"{name} does not exist: check the address and your credentials"
    said = "".join(char if char.isprintable() else " " for char in str(error) or "no reason given")
    cause = " ".join(said.split())[:_LONGEST_CAUSE]
    return f"{name} cannot be read ({type(error).__name__}: {cause}): check the address and your credentials"
