"""The queue: the users take turns, so one with a thousand runs does not keep the others waiting."""

from __future__ import annotations

import asyncio
from collections import Counter, deque
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

from rlm.server.errors import ApiError

__all__ = ["FairQueue"]


class FairQueue:
    """Lets `at_once` turns be taken at a time, `per_user` of one user, the users in rotation."""

    def __init__(self, at_once: int, per_user: int, *, waiting: int, waiting_per_user: int) -> None:
        self._at_once = at_once
        self._per_user = per_user
        self._most = waiting
        self._most_per_user = waiting_per_user
        self._queues: dict[str, deque[asyncio.Future[None]]] = {}
        self._given = 0
        self._last: dict[str, int] = {}
        """The number of the turn that each user had last."""
        self._taken: Counter[str] = Counter()
        self._admitted: Counter[str] = Counter()

    @property
    def running(self) -> int:
        """The turns that are taken."""
        return self._taken.total()

    @property
    def waiting(self) -> int:
        """The runs that were admitted and have no turn."""
        return self._admitted.total() - self.running

    def check_room(self, user: str) -> None:
        """Raise ApiError if the queue is full, for this user or for all."""
        mine = self._admitted[user] - self._taken[user]
        if mine >= self._most_per_user or self.waiting >= self._most:
            whose = f"{mine:,} runs of yours wait" if mine >= self._most_per_user else "the queue is full"
            raise ApiError(
                429,
                f"{whose}: try again when some have ended",
                kind="rate_limit_error",
                code="rate_limit_exceeded",
                headers={"retry-after": "5"},
            )

    def admit(self, user: str) -> None:
        """Count a run that was accepted. Call `leave` when it ends."""
        self._admitted[user] += 1

    def leave(self, user: str) -> None:
        """Count a run as ended."""
        self._admitted[user] -= 1
        if not self._admitted[user]:
            del self._admitted[user]

    @asynccontextmanager
    async def turn(self, user: str) -> AsyncIterator[None]:
        """Wait for a turn of this user, and hold it."""
        turn: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._queues.setdefault(user, deque()).append(turn)
        self._give()
        try:
            await turn
        except asyncio.CancelledError:
            if turn.done() and not turn.cancelled():
                self._end(user)
            else:
                self._forget(user, turn)
            raise
        try:
            yield
        finally:
            self._end(user)

    def _give(self) -> None:
        """Give free turns, to the user whose last turn is the longest ago."""
        while self.running < self._at_once:
            users = [one for one in self._queues if self._taken[one] < self._per_user]
            if not users:
                return
            user = min(users, key=lambda one: self._last.get(one, 0))
            waiting = self._queues[user]
            turn = waiting.popleft()
            if not waiting:
                del self._queues[user]
            if not turn.done():
                self._given += 1
                self._last[user] = self._given
                self._taken[user] += 1
                turn.set_result(None)

    def _end(self, user: str) -> None:
        self._taken[user] -= 1
        if not self._taken[user]:
            del self._taken[user]
        self._give()

    def _forget(self, user: str, turn: asyncio.Future[None]) -> None:
        waiting = self._queues.get(user)
        if waiting is not None and turn in waiting:
            waiting.remove(turn)
            if not waiting:
                del self._queues[user]
