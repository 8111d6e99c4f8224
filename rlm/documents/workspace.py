"""The private folder of one run, in the temporary folder. It holds documents, so it is removed with the
run."""

from __future__ import annotations

import asyncio
import shutil
import tempfile
import threading
from collections.abc import Callable, Sequence
from concurrent.futures import Future
from pathlib import Path
from types import TracebackType
from typing import Any, Self, TypeVar

from rlm.documents import ContextCache, Lease, Loaded, Progress, Source, load
from rlm.errors import UsageError
from rlm.sandbox.errors import ContextFileError
from rlm.sandbox.folders import private_folder, sweep_folders

__all__ = ["Workspace"]

_GRACE_SECONDS = 1.0
_T = TypeVar("_T")


class Workspace:
    """A context manager for a new folder that only its owner can read.

    Entering it also removes the folders that killed processes of this user left, those of kernels included.
    Raises UsageError if the temporary folder cannot be used.
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
                "free space or fix its permissions, or set TMPDIR to another folder"
            ) from error
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._remove()

    @property
    def folder(self) -> Path:
        """The folder. Valid within `with` only."""
        assert self._folder is not None
        return self._folder

    async def load(
        self,
        sources: Sequence[Source | Path | str | bytes],
        progress: Progress | None = None,
        cache: ContextCache | None = None,
        seconds: float | None = None,
        *,
        pictures: bool = False,
    ) -> Loaded:
        """Run `rlm.documents.load` for this folder, on a thread of its own. Call it once.

        `progress` is called on that thread. Raises DocumentError, and UsageError if the disk is full.
        """

        def load_here(tick: Progress) -> Loaded:
            def report(name: str, size: int) -> None:
                tick(name, size)
                if progress is not None:
                    progress(name, size)

            return load(sources, self.folder / "context", report, cache, seconds, pictures=pictures)

        loaded = await self.work(load_here)
        self._lease = loaded.lease
        return loaded

    async def work(self, act: Callable[[Progress], _T]) -> _T:
        """Return what `act` returns on a thread of its own. It must call its argument every now and then, as
        `load` does.

        Cancellation takes effect at the next such call, for `load` within 0.1 s. The exception is a stream of
        the caller that is neither a file nor a pipe: its thread may keep waiting, and does not keep the
        process from exiting. Raises what `act` raises, and UsageError if the disk is full.
        """
        stopped = threading.Event()

        def tick(name: str, size: int) -> None:
            if stopped.is_set():
                raise _Stopped

        outcome: Future[_T] = Future()

        def run() -> None:
            # The boundary of the thread: every exception is raised in the run.
            try:
                tick("", 0)
                outcome.set_result(act(tick))
            except BaseException as error:
                outcome.set_exception(error)

        outcome.set_running_or_notify_cancel()
        # Not asyncio.to_thread: the event loop would wait for that thread when it closes.
        thread = threading.Thread(target=run, name="rlm-load", daemon=True)
        thread.start()
        loading = asyncio.wrap_future(outcome)
        loading.add_done_callback(_retrieve_exception)
        try:
            await asyncio.wait([loading])
        except asyncio.CancelledError:
            stopped.set()
            # The thread must not write into a folder that is being removed.
            await asyncio.wait([loading], timeout=_GRACE_SECONDS)
            loading.cancel()
            raise
        finally:
            if outcome.done():
                thread.join()
        try:
            return loading.result()
        except ContextFileError as error:
            if not isinstance(error.__cause__, OSError):
                raise
            raise UsageError(
                f"the input can't be written to the temporary folder {self.folder.parent}: "
                f"{error.__cause__.strerror}: free space there, or set TMPDIR to a folder with more"
            ) from error

    def _remove(self) -> None:
        if self._lease is not None:
            self._lease.close()
            self._lease = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)


class _Stopped(Exception):
    """Stops the loading thread after the run was cancelled."""


def _retrieve_exception(loading: asyncio.Future[Any]) -> None:
    """Retrieve the exception, or asyncio logs it: a cancelled run never does."""
    if not loading.cancelled():
        loading.exception()
