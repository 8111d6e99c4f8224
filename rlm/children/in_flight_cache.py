"""Deduplicates identical calls of a run, including calls in flight."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rlm.lazy_dataclass import dataclass
from rlm.sandbox.types import ChildAnswer

__all__ = ["InFlightCache"]


@dataclass(slots=True)
class _Pending:
    """A call in flight, or answered. `waiting` is how many callers wait for it."""

    task: asyncio.Task[ChildAnswer]
    waiting: int = 0


class InFlightCache:
    """Keeps answers by the key of the call. Failures are not kept."""

    def __init__(self) -> None:
        self._known: dict[str, _Pending] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __len__(self) -> int:
        return len(self._known)

    def clear(self) -> None:
        """Forget all answers. A call in flight still answers its callers."""
        self._known.clear()

    async def answer(self, key: str, ask: Callable[[], Awaitable[ChildAnswer]]) -> ChildAnswer:
        """Return the answer to `key` from memory, from the same call in flight, or from `ask`.

        A call runs in a task of its own and is cancelled with its last caller, who returns when it has ended.
        A call that failed for another caller is made again. An exception of `ask` is raised in every caller.
        """
        # A loop, because the wait may end in another caller's failure. By then a third caller may have made
        # the call again, so the cache is looked up anew. No await stands between the last look and the line
        # that stores the new task: of several callers that wake together, exactly one asks again and the
        # others wait for it. The callers shield the task, since cancelling one of them must not cancel it
        # for the others.
        while (asking := self._known.get(key)) is not None:
            answer = await self._wait(key, asking)
            if answer.error is None:
                return replace(
                    answer,
                    cached=True,
                    input_tokens=0,
                    output_tokens=0,
                    calls=0,
                    cost_usd=0.0,
                )
        asking = self._known[key] = _Pending(asyncio.ensure_future(ask()))
        asking.task.add_done_callback(lambda task: self._ended(key, task))
        return await self._wait(key, asking)

    async def _wait(self, key: str, asking: _Pending) -> ChildAnswer:
        asking.waiting += 1
        try:
            return await asyncio.shield(asking.task)
        finally:
            asking.waiting -= 1
            if not asking.waiting and not asking.task.done():
                self._forget(key, asking.task)
                asking.task.cancel()
                await asyncio.wait([asking.task])

    def _ended(self, key: str, task: asyncio.Task[ChildAnswer]) -> None:
        if task.cancelled() or task.exception() is not None or task.result().error is not None:
            self._forget(key, task)

    def _forget(self, key: str, task: asyncio.Task[ChildAnswer]) -> None:
        known = self._known.get(key)
        if known is not None and known.task is task:
            del self._known[key]
