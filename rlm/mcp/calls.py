"""The calls of a server: their progress, their turns, their clean end."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, TypeVar

import anyio
from mcp.server.mcpserver import Context

from rlm import events
from rlm.status import RunStatus

__all__ = ["Call", "Calls"]

_T = TypeVar("_T")
_BETWEEN_PROGRESS = 0.2


class Call:
    """A call while it runs, with the `status` of its run."""

    def __init__(self) -> None:
        self.status = RunStatus()
        self._has_changed = asyncio.Event()
        self._is_named = False
        self._last, self._sent = "", 0

    def on_event(self, event: events.Event) -> None:
        """Take an event of the run for the progress notifications."""
        self.status.on_event(event)
        self._has_changed.set()

    def say(self, line: str) -> None:
        """Say what the call does before it has a run."""
        self.status.doing = line
        self._has_changed.set()

    async def report(self, context: Context[Any, Any]) -> None:
        """Send the name of the run and then its status whenever it changes, until it is cancelled."""
        while True:
            await self._has_changed.wait()
            self._has_changed.clear()
            await self.report_now(context)
            await asyncio.sleep(_BETWEEN_PROGRESS)

    async def report_now(self, context: Context[Any, Any]) -> None:
        """Send what was not sent yet."""
        lines = [self.status.line] if self.status.line != self._last else []
        self._last = self.status.line
        if self.status.run_id and not self._is_named:
            self._is_named = True
            lines.insert(0, f"run {self.status.run_id}")
        for line in lines:
            self._sent += 1
            with suppress(Exception):  # a client that is gone must not end the run
                await context.report_progress(self._sent, None, line)


class Calls:
    """The calls of a server. At most `concurrency` runs work at a time; the others wait."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)
        self._running: dict[Call, asyncio.Task[Any]] = {}

    @property
    def running(self) -> tuple[Call, ...]:
        """Return the calls in flight."""
        return tuple(self._running)

    async def serve(
        self, context: Context[Any, Any], work: Callable[[Call], Awaitable[_T]], *, waits: bool = False
    ) -> _T:
        """Return the result of `work`. With `waits`, it is a run, and begins when its turn comes. A
        cancellation cancels the work and waits until its run is recorded as interrupted."""
        call = Call()
        task = asyncio.ensure_future(self._in_turn(call, work) if waits else _as_coroutine(work, call))
        self._running[call] = task
        reporting = asyncio.ensure_future(call.report(context))
        try:
            await asyncio.wait([task])
        except asyncio.CancelledError:
            # The scope that was cancelled cancels every wait within it, that for the clean end, too.
            with anyio.CancelScope(shield=True):
                await _stop(task)
            raise
        finally:
            reporting.cancel()
            del self._running[call]
        # A short run ends before its lines are due.
        await call.report_now(context)
        return task.result()

    async def close(self) -> None:
        """Stop all calls."""
        await asyncio.gather(*(_stop(task) for task in self._running.values()))

    async def _in_turn(self, call: Call, work: Callable[[Call], Awaitable[_T]]) -> _T:
        if self._places.locked():
            call.say(f"waiting: {self._concurrency} calls are running")
        async with self._places:
            return await work(call)


async def _as_coroutine(work: Callable[[Call], Awaitable[_T]], call: Call) -> _T:
    return await work(call)


async def _stop(task: asyncio.Task[Any]) -> None:
    task.cancel()
    await asyncio.wait([task])
    with suppress(asyncio.CancelledError, Exception):
        task.result()
