"""The private folder of one run, in the temp folder. It holds the documents: it must not outlive the run."""

from __future__ import annotations

import asyncio
import json
import os
import re
import shutil
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import Future
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from types import TracebackType
from typing import Self

from rlm.documents import ContextCache, Lease, Loaded, Progress, Source, load
from rlm.errors import UsageError
from rlm.process import OwnerProcess
from sandbox.errors import ContextFileError

__all__ = ["Workspace"]

_PREFIX = "rlm-context-"
_NAME = re.compile(rf"{_PREFIX}\d+-\w+")
_OWNER = "owner.json"
_UNOWNED_SECONDS = 60.0
"""A folder without an owner is being made right now, or its maker was killed in that moment: older than
this it is the latter."""

_GRACE_SECONDS = 1.0


class Workspace:
    """A new folder, readable by its owner only, from `with` to its end.

    Making one removes those that killed processes of this user left behind. Raises UsageError if the temp
    folder can't be used.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lease: Lease | None = None

    def __enter__(self) -> Self:
        try:
            top = Path(tempfile.gettempdir())
        except FileNotFoundError as error:
            raise UsageError(f"{error.strerror}: set TMPDIR to a folder you may write to") from error
        _sweep(top)
        try:
            self._folder = Path(tempfile.mkdtemp(prefix=f"{_PREFIX}{os.getpid()}-", dir=top))
            (self._folder / _OWNER).write_text(json.dumps(asdict(OwnerProcess.here())), "utf-8")
        except OSError as error:
            self._remove()
            raise UsageError(
                f"the temporary folder {top} can't be written: {error.strerror}: "
                "make room or mend its permissions, or set TMPDIR to another folder"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def folder(self) -> Path:
        """Where it is. Only within `with`."""
        assert self._folder is not None
        return self._folder

    async def load(
        self,
        sources: Sequence[Source | Path | str | bytes],
        progress: Progress | None = None,
        cache: ContextCache | None = None,
    ) -> Loaded:
        """`rlm.documents.load` into this folder, or into `cache` or out of it, once. `progress` is called on
        a thread other than the event loop's.

        When cancelled it ends within a tenth of a second, whatever is being read; only a stream of the
        caller's own that neither a file nor a pipe is behind may go on waiting: its thread is left to it, and
        keeps no process from ending. Raises DocumentError, and UsageError if there is not enough room.
        """
        stopped = threading.Event()

        def tick(name: str, size: int) -> None:
            if stopped.is_set():
                raise _Stopped
            if progress is not None:
                progress(name, size)

        outcome: Future[Loaded] = Future()

        def work() -> None:
            # A boundary: whatever ends the thread is raised in the run.
            try:
                if stopped.is_set():
                    raise _Stopped
                outcome.set_result(load(sources, self.folder / "context", tick, cache))
            except BaseException as error:
                outcome.set_exception(error)

        outcome.set_running_or_notify_cancel()
        # Not asyncio.to_thread: that thread would be waited for when the event loop closes.
        thread = threading.Thread(target=work, name="rlm-load", daemon=True)
        thread.start()
        loading = asyncio.wrap_future(outcome)
        loading.add_done_callback(_looked_at)
        try:
            await asyncio.wait([loading])
        except asyncio.CancelledError:
            stopped.set()
            # It must not write into a folder that is being removed.
            await asyncio.wait([loading], timeout=_GRACE_SECONDS)
            loading.cancel()
            raise
        finally:
            if outcome.done():
                thread.join()
        try:
            loaded = loading.result()
            self._lease = loaded.lease
            return loaded
        except ContextFileError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise UsageError(
                f"the input can't be written to the temporary folder {self.folder.parent}: "
                f"{error.__cause__.strerror}: make room there, or set TMPDIR to a folder with more"
            ) from error

    def _remove(self) -> None:
        if self._lease is not None:
            self._lease.close()
            self._lease = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Stopped(Exception):
    """The run was cancelled: the thread that loads ends where it is."""


def _looked_at(loading: asyncio.Future[Loaded]) -> None:
    """Nobody asks a cancelled run what its loading ended with; asyncio would complain of that."""
    if not loading.cancelled():
        loading.exception()


def _sweep(top: Path) -> None:
    """Remove what killed processes left. Another process may do the same at the same time."""
    for folder in _folders(top):
        if _is_left(folder):
            shutil.rmtree(folder, ignore_errors=True)


def _folders(top: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(top) as entries:
        for entry in entries:
            if not _NAME.fullmatch(entry.name):
                continue
            with suppress(OSError):
                # Never through a link, and never what another user made: this place is everybody's.
                if (
                    entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
                ):
                    yield Path(entry.path)


def _is_left(folder: Path) -> bool:
    try:
        owner = json.loads((folder / _OWNER).read_bytes())
    except (OSError, ValueError):
        try:
            return time.time() - folder.stat().st_mtime > _UNOWNED_SECONDS
        except OSError:
            return False
    try:
        return OwnerProcess(**owner).is_gone()
    except TypeError:
        return False  # another version of rlm wrote it, and knows what it means
