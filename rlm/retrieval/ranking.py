"""The ranked index of a run: built on a thread when a cell first ranks, asked one query at a time."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Callable, Sequence
from typing import TypeVar

from rlm.events import Indexing, Observer
from rlm.retrieval.cache import IndexCache
from rlm.retrieval.index import QueryStopped, RetrievalError
from rlm.retrieval.packs import Expand, Pack
from rlm.retrieval.retriever import Rank, Retriever
from rlm.sandbox.in_kernel.body.body import Body

__all__ = ["Ranking"]

_T = TypeVar("_T")
_SILENT_CHARS = 8_000_000
"""Characters of a body that is indexed before anybody wonders what goes on."""


class Ranking:
    """Asks a Retriever without holding up the event loop. `tell` is called from the event loop with what has
    been indexed so far.

    Cancelling a call ends the query, or the building, within a fraction of a second, and waits for that: the
    body may be closed afterwards. The index is kept in the first of `caches` that can be used.
    """

    def __init__(self, body: Body, tell: Observer, caches: Sequence[IndexCache]) -> None:
        self._body = body
        self._tell = tell
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
        rank: Rank = "bm25",
    ) -> list[Pack]:
        """`Retriever.retrieve`, with what it raises."""
        async with self._lock:
            loop = asyncio.get_running_loop()

            def work() -> list[Pack]:
                return self._prepared(loop).retrieve(
                    query, limit, neighbors, expand, rank, stop=self._stopped.is_set
                )

            return await self._on_thread(work)

    async def aclose(self) -> None:
        """Let go of the index. Nothing may be asked any more."""
        async with self._lock:
            if self._retriever is not None:
                self._retriever.close()
                self._retriever = None

    def _prepared(self, loop: asyncio.AbstractEventLoop) -> Retriever:
        """The retriever with its index open. On the thread."""
        if self._retriever is not None:
            return self._retriever

        def building(done: int, whole: int) -> None:
            if self._stopped.is_set():
                raise QueryStopped
            if whole >= _SILENT_CHARS:
                loop.call_soon_threadsafe(self._tell, Indexing(done, whole))

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
        raise AssertionError("the last of the caches has been used, or has raised")

    async def _on_thread(self, work: Callable[[], _T]) -> _T:
        self._stopped.clear()
        working = asyncio.ensure_future(asyncio.to_thread(work))
        try:
            return await asyncio.shield(working)
        except asyncio.CancelledError:
            self._stopped.set()
            await asyncio.wait([working])
            if not working.cancelled():
                working.exception()  # nobody asks for it any more
            raise
