"""The events of runs that are open in this process, for clients that watch them."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator, Iterator
from contextlib import contextmanager

from rlm.events import Event
from rlm.results import RunResult
from rlm.server.errors import ApiError

__all__ = ["Channel", "Live"]

_MOST_EVENTS = 500


class Channel:
    """The events for one watcher. A slow watcher loses the oldest ones: they only say what a run does now,
    and its steps are in the journal."""

    def __init__(self) -> None:
        self._events: deque[Event] = deque(maxlen=_MOST_EVENTS)
        self._changed = asyncio.Event()
        self._is_closed = False

    def put(self, event: Event) -> None:
        """Add an event."""
        self._events.append(event)
        self._changed.set()

    def close(self) -> None:
        """End the iteration after the events that are there."""
        self._is_closed = True
        self._changed.set()

    async def wait(self, seconds: float) -> tuple[list[Event], bool]:
        """Return the events that came, after at most so many seconds, and whether there will be more."""
        if not self._events and not self._is_closed:
            try:
                await asyncio.wait_for(self._changed.wait(), seconds)
            except TimeoutError:
                return [], True
        self._changed.clear()
        found = list(self._events)
        self._events.clear()
        return found, not self._is_closed

    async def __aiter__(self) -> AsyncIterator[Event]:
        is_open = True
        while is_open:
            events, is_open = await self.wait(3_600.0)
            for event in events:
                yield event


class Live:
    """A run that is open in this process. `result` or `error` is there once it has `ended`."""

    def __init__(self, run_id: str, user: str) -> None:
        self.run_id = run_id
        self.user = user
        self.result: RunResult | None = None
        self.error: ApiError | None = None
        self.ended = asyncio.Event()
        self.task: asyncio.Task[None] | None = None
        self.end_as = "queued"
        """The state of the run if it is cancelled; `queued` is resumed by the next start of the server."""
        self._channels: set[Channel] = set()

    def tell(self, event: Event) -> None:
        """Pass an event to those who watch. An observer."""
        for channel in self._channels:
            channel.put(event)

    def end(self) -> None:
        """Mark the run as ended."""
        self.ended.set()
        for channel in self._channels:
            channel.close()

    @contextmanager
    def watch(self) -> Iterator[Channel]:
        """Return the events from now on."""
        channel = Channel()
        self._channels.add(channel)
        if self.ended.is_set():
            channel.close()
        try:
            yield channel
        finally:
            self._channels.discard(channel)

    async def outcome(self) -> RunResult:
        """Wait for the end and return the result. Raises ApiError."""
        await self.ended.wait()
        if self.error is not None:
            raise self.error
        if self.result is None:
            raise ApiError(
                503, f"run {self.run_id} was interrupted; send the same request again to resume it",
                kind="server_error", code="interrupted", headers={"retry-after": "2"},
            )  # fmt: skip
        return self.result
