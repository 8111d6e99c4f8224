"""How many requests one provider is sent at a time: fewer when it says "slower", more again when it doesn't.

Additive increase, multiplicative decrease. It begins at its ceiling: most providers take what a run sends,
and those that don't say so at once.
"""

from __future__ import annotations

import asyncio
import time
from collections import deque
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager, suppress
from weakref import WeakKeyDictionary

from rlm.models.http.endpoint import Endpoint

__all__ = ["Limiter", "limiter_of"]


class Limiter:
    """Slots for requests to one provider, given in the order they were asked for. For one event loop.

    `ceiling` is the most there are; `clock` gives seconds, monotonic.
    """

    def __init__(self, ceiling: int, *, clock: Callable[[], float] = time.monotonic) -> None:
        self._ceiling = ceiling
        self._allowed = float(ceiling)
        self._clock = clock
        self._in_flight = 0
        self._paused_until = -float("inf")
        self._slowed_at = -float("inf")
        self._waiting: deque[asyncio.Future[None]] = deque()
        self._wake: asyncio.TimerHandle | None = None

    @property
    def allowed(self) -> int:
        """How many may be under way now."""
        return int(self._allowed)

    def widen(self, ceiling: int) -> None:
        """Raise the ceiling for a user who may send more; what the provider has slowed stays slowed."""
        if ceiling > self._ceiling:
            if self._allowed == self._ceiling:
                self._allowed = float(ceiling)
            self._ceiling = ceiling
            self._admit()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a slot and hold it. Gives the time it was had, for `slow_down`."""
        if self._waiting or not self._free():
            await self._turn()
        else:
            self._in_flight += 1
        try:
            yield self._clock()
        finally:
            self._in_flight -= 1
            self._admit()

    def speed_up(self) -> None:
        """A request went well: a little more may be under way."""
        self._allowed = min(self._ceiling, self._allowed + 1 / self._allowed)

    def slow_down(self, began: float, *, retry_after: float = 0.0) -> None:
        """The request of a slot had at `began` was answered "slower": half of what is under way from now on,
        and nothing at all for `retry_after` seconds."""
        now = self._clock()
        # Those that were under way together say one thing together.
        if began > self._slowed_at:
            self._allowed = max(1.0, min(self._allowed, self._in_flight) / 2)
            self._slowed_at = now
        self._paused_until = max(self._paused_until, now + retry_after)

    def _free(self) -> bool:
        return self._in_flight < self.allowed and self._clock() >= self._paused_until

    async def _turn(self) -> None:
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # it may have been passed over already
                    self._waiting.remove(turn)
            else:  # it was given the slot, and goes without using it
                self._in_flight -= 1
            self._admit()
            raise

    def _admit(self) -> None:
        """Give free slots to those that wait, and come back when a pause ends."""
        while self._waiting and self._free():
            turn = self._waiting.popleft()
            if not turn.done():
                self._in_flight += 1
                turn.set_result(None)
        pause = self._paused_until - self._clock()
        if self._waiting and pause > 0 and self._wake is None:
            self._wake = asyncio.get_running_loop().call_later(pause, self._resume)

    def _resume(self) -> None:
        self._wake = None
        self._admit()


_limiters: WeakKeyDictionary[asyncio.AbstractEventLoop, dict[Endpoint, Limiter]] = WeakKeyDictionary()


def limiter_of(endpoint: Endpoint, ceiling: int) -> Limiter:
    """The one limiter of `endpoint` in the running loop: every run and every depth of its tree shares it."""
    limiters = _limiters.setdefault(asyncio.get_running_loop(), {})
    limiter = limiters.setdefault(endpoint, Limiter(ceiling))
    limiter.widen(ceiling)
    return limiter
