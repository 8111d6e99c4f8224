"""The ranked index of a run: built in a thread when a cell first calls `rank`, used by one query at a
time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from rlm.events import Loading, Observer
from rlm.retrieval.errors import QueryStopped, RetrievalError
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.text.body import Body, Span

if TYPE_CHECKING:
    from rlm.documents import FolderCache
    from rlm.retrieval.packs import Expand, Pack
    from rlm.retrieval.retriever import Retriever

__all__ = ["Ranking"]

_T = TypeVar("_T")
_SILENT_CHARS = 8_000_000
"""Bodies below this size are indexed too fast to report progress."""


class Ranking:
    """Calls a Retriever without blocking the event loop. `observer` is called from the event loop with the
    progress of indexing.

    Cancelling a call stops the query or the build within a fraction of a second, and waits for that: the body
    may be closed afterwards. The index is stored in the first of `caches` that is usable.
    """

    def __init__(self, body: Body, observer: Observer, caches: Sequence[FolderCache]) -> None:
        self._body = body
        self._observer = observer
        self._caches = tuple(caches)
        self._lock = asyncio.Lock()
        self._stopped = threading.Event()
        self._retriever: Retriever | None = None

    async def packs(
        self,
        query: str,
        *,
        limit: int,
        neighbors: int = 1,
        expand: Expand | None = None,
        within: Span | None = None,
    ) -> list[Pack]:
        """Call `Retriever.retrieve`. Raises the same errors."""
        async with self._lock:
            loop = asyncio.get_running_loop()

            def work() -> list[Pack]:
                return self._prepare(loop).retrieve(
                    query, limit, neighbors, expand, within=within, stop=self._stopped.is_set
                )

            return await self._run_in_thread(work)

    async def aclose(self) -> None:
        """Close the index. No call may follow."""
        async with self._lock:
            if self._retriever is not None:
                self._retriever.close()
                self._retriever = None

    def _prepare(self, loop: asyncio.AbstractEventLoop) -> Retriever:
        """Return the retriever with its index open. Runs in the thread."""
        # Many runs rank nothing.
        from rlm.retrieval.retriever import Retriever

        if self._retriever is not None:
            return self._retriever

        def building(done: int, whole: int) -> None:
            if self._stopped.is_set():
                raise QueryStopped
            if whole >= _SILENT_CHARS:
                loop.call_soon_threadsafe(self._observer, Loading("", done, whole))

        for cache in self._caches:
            retriever = Retriever(self._body, cache=cache, building=building)
            try:
                retriever.prepare()
            except BaseException as error:
                retriever.close()
                if not isinstance(error, RetrievalError) or cache is self._caches[-1]:
                    raise
            else:
                self._retriever = retriever
                return retriever
        raise AssertionError("the last cache was used, or it raised")

    async def _run_in_thread(self, work: Callable[[], _T]) -> _T:
        self._stopped.clear()
        working = asyncio.ensure_future(run_in_daemon_thread(work, name="rlm-rank"))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._stopped.set()
            await asyncio.wait([working])
            if not working.cancelled():
                working.exception()  # marks the exception as retrieved, so that asyncio does not log it
            raise
