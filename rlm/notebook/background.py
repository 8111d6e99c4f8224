"""Runs a question in a thread with an event loop of its own, while the cell waits.

The loop of a notebook is busy with the cell: nothing can be awaited in it before the cell has ended.
"""

from __future__ import annotations

import asyncio
import queue
import threading
from collections.abc import Callable
from contextlib import aclosing

from rlm.events import Event, Observer, RunFinished, RunStarted
from rlm.notebook.arguments import Asked
from rlm.results import RunResult
from rlm.runtime import RLM

__all__ = ["BackgroundRun"]

_POLL_SECONDS = 0.2
_LEAVING_SECONDS = 15.0
"""How long a cancelled run may take to end its kernel and its calls."""


class BackgroundRun:
    """One run in a thread. It starts at once."""

    def __init__(self, rlm: RLM, asked: Asked) -> None:
        self.run_id = ""
        self._rlm = rlm
        self._asked = asked
        self._events: queue.SimpleQueue[Event | None] = queue.SimpleQueue()
        self._result: RunResult | None = None
        self._error: BaseException | None = None
        self._loop = asyncio.new_event_loop()
        self._task: asyncio.Task[None] = self._loop.create_task(self._ask())
        self._thread = threading.Thread(target=self._run, name="rlm", daemon=True)
        self._thread.start()

    def wait(self, observe: Observer, tick: Callable[[], None] | None = None) -> RunResult:
        """Return the result. Meanwhile, calls `observe` with each event, and `tick` several times a second,
        in this thread: what another thread displays has no cell.

        Raises what the run raises. After a KeyboardInterrupt the run is cancelled, and has ended."""
        try:
            while True:
                try:
                    event = self._events.get(timeout=_POLL_SECONDS)
                except queue.Empty:
                    if tick is not None:
                        tick()
                    continue
                if event is None:
                    break
                if isinstance(event, RunStarted) and not self.run_id:
                    self.run_id = event.run_id
                observe(event)
        except BaseException:
            self._cancel()
            raise
        self._thread.join()
        if self._error is not None:
            raise self._error
        assert self._result is not None
        return self._result

    def _cancel(self) -> None:
        """Cancel the run and wait until its kernel and its calls are gone."""
        self._loop.call_soon_threadsafe(self._task.cancel)
        self._thread.join(_LEAVING_SECONDS)

    def _run(self) -> None:
        try:
            self._loop.run_until_complete(self._task)
        except BaseException as error:  # handed to the thread that waits
            self._error = error
        finally:
            self._loop.run_until_complete(self._loop.shutdown_asyncgens())
            self._loop.close()
            self._events.put(None)

    async def _ask(self) -> None:
        asked, rlm = self._asked, self._rlm
        try:
            async with aclosing(rlm.stream(asked.question, asked.context, schema=asked.schema)) as events:
                async for event in events:
                    if isinstance(event, RunFinished):
                        self._result = event.result
                    self._events.put(event)
        finally:
            await rlm.aclose()
