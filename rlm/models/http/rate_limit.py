"""Limit the requests in flight at one provider: fewer after a rate limit, gradually more after successes.

Additive increase, multiplicative decrease. The limiter starts at its ceiling: most providers accept what a
run sends, and the others refuse at once.
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
    """Slots for requests to one provider, granted in the order of arrival. For one event loop.

    `ceiling` is the maximum number of slots; `clock` returns monotonic seconds.
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
        """Return how many requests may be in flight now."""
        return int(self._allowed)

    def widen(self, ceiling: int) -> None:
        """Raise the ceiling for a user who may send more. A limit that the provider has lowered stays
        lowered."""
        if ceiling > self._ceiling:
            if self._allowed == self._ceiling:
                self._allowed = float(ceiling)
            self._ceiling = ceiling
            self._admit()

    @asynccontextmanager
    async def slot(self) -> AsyncIterator[float]:
        """Wait for a slot and hold it. Yields the time it was granted, for `slow_down`."""
        if self._waiting or not self._has_room():
            await self._wait_for_turn()
        else:
            self._in_flight += 1
        try:
            yield self._clock()
        finally:
            self._in_flight -= 1
            self._admit()

    def speed_up(self) -> None:
        """Report a success: the limit rises a little."""
        self._allowed = min(self._ceiling, self._allowed + 1 / self._allowed)

    def slow_down(self, began: float, *, retry_after: float = 0.0) -> None:
        """Report a rate limit for the request whose slot was granted at `began`. Halves the limit, and grants
        no slot for `retry_after` seconds."""
        now = self._clock()
        # Concurrent rate limits count as one signal: a batch of 16 must not halve the limit 16 times.
        if began > self._slowed_at:
            self._allowed = max(1.0, min(self._allowed, self._in_flight) / 2)
            self._slowed_at = now
        self._paused_until = max(self._paused_until, now + retry_after)

    def _has_room(self) -> bool:
        return self._in_flight < self.allowed and self._clock() >= self._paused_until

    async def _wait_for_turn(self) -> None:
        # A slot is counted as in flight by `_admit`, before the waiting task wakes up: otherwise a newcomer
        # could take it in between. So a task that is cancelled has two cases. Its future was cancelled with
        # it: it still stands in the queue and holds nothing. Or `_admit` set the future first and the
        # cancellation came before the task ran: it owns a slot that it will never use, and must return it. In
        # both cases `_admit` runs again, because the next in the queue may now have room.
        turn = asyncio.get_running_loop().create_future()
        self._waiting.append(turn)
        self._admit()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.cancelled():
                with suppress(ValueError):  # `_admit` may have skipped it already
                    self._waiting.remove(turn)
            else:
                self._in_flight -= 1
            self._admit()
            raise

    def _admit(self) -> None:
        """Grant free slots to waiting requests. During a pause, schedule the next call for its end."""
        while self._waiting and self._has_room():
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
    """Return the limiter of `endpoint` in the running loop. All runs and all their sub-RLMs share it."""
    limiters = _limiters.setdefault(asyncio.get_running_loop(), {})
    limiter = limiters.setdefault(endpoint, Limiter(ceiling))
    limiter.widen(ceiling)
    return limiter
