"""What a run was answered, and what is on its way: who asks the same gets that, and it is asked for once."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace

from rlm.sandbox.types import ChildAnswer

__all__ = ["InFlightCache"]


@dataclass(slots=True)
class _Pending:
    """A question under way, or answered, and how many wait for it."""

    task: asyncio.Task[ChildAnswer]
    waiting: int = 0


class InFlightCache:
    """Answers by the key of what was asked. Failures are not kept."""

    def __init__(self) -> None:
        self._known: dict[str, _Pending] = {}

    def __contains__(self, key: str) -> bool:
        return key in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def clear(self) -> None:
        """Forget all; what is on its way still comes to those that wait for it."""
        self._known.clear()

    async def answer(self, key: str, ask: Callable[[], Awaitable[ChildAnswer]]) -> ChildAnswer:
        """The answer to `key`, from memory, from the same question under way, or from `ask`.

        A question goes on while anybody waits for it, whoever asked first, and is cancelled with the last of
        them, who returns when it has ended. One that failed for another is asked again. What `ask` raises,
        everybody gets.
        """
        while (asking := self._known.get(key)) is not None:
            answer = await self._wait(key, asking)
            if answer.error is None:
                return replace(answer, cached=True, input_tokens=0, output_tokens=0)
            # It failed for another; whoever of those that waited comes first asks again.
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
