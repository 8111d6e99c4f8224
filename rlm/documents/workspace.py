"""The private folder of one run, in the temp folder. It holds the documents: it must not outlive the run."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Self

from rlm.documents import ContextCache, Lease, Loaded, Progress, Source, load
from rlm.errors import UsageError
from rlm.sandbox import private_folder, sweep_folders
from rlm.sandbox.errors import ContextFileError

__all__ = ["Workspace"]

_GRACE_SECONDS = 1.0


class Workspace:
    """A new folder, readable by its owner only, from `with` to its end.

    Making one removes what killed processes of this user left behind, their kernels' folders as well. Raises
    UsageError if the temp folder can't be used.
    """

    def __init__(self) -> None:
        self._folder: Path | None = None
        self._lease: Lease | None = None

    def __enter__(self) -> Self:
        try:
            top = Path(tempfile.gettempdir())
        except FileNotFoundError as error:
            raise UsageError(f"{error.strerror}: set TMPDIR to a folder you may write to") from error
        sweep_folders(top)
        try:
            self._folder = private_folder("context", top)
        except OSError as error:
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
