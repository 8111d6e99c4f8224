"""Hold the events of a run for a reader that may be slower than the run."""

from __future__ import annotations

import asyncio
from collections import deque
from collections.abc import AsyncIterator
from dataclasses import replace

from rlm.events import Event, TextDelta

__all__ = ["EventQueue"]


class EventQueue:
    """Yields the events that are put into it, until it is closed.

    A delta joins the delta before it if both belong to the same reply, so a slow reader gets fewer and longer
    ones.
    """

    def __init__(self) -> None:
        self._events: deque[Event] = deque()
        self._changed = asyncio.Event()
        self._closed = False

    def put(self, event: Event) -> None:
        """Add an event. An observer."""
        if not (self._events and self._join(event)):
            self._events.append(event)
        self._changed.set()

    def close(self) -> None:
        """End the iteration after the events that are in the queue."""
        self._closed = True
        self._changed.set()

    async def __aiter__(self) -> AsyncIterator[Event]:
        while True:
            while self._events:
                yield self._events.popleft()
            if self._closed:
                return
            self._changed.clear()
            await self._changed.wait()

    def _join(self, event: Event) -> bool:
        last = self._events[-1]
        if not isinstance(last, TextDelta) or not isinstance(event, TextDelta):
            return False
        if (last.is_answer, last.call) != (event.is_answer, event.call):
            return False
        if event.restarted:
            self._events[-1] = event
        else:
            self._events[-1] = replace(last, text=last.text + event.text)
        return True
