"""One call of a tool: its task, its progress, its requests to the client, its end.

Up to protocol 2025-11-25 a server may send requests of its own (roots, sampling) while a call runs. From
2026-07-28 on it may not: the call returns what it needs from the client, and the client calls again with the
responses. The work goes on as one task either way.
"""

from __future__ import annotations

import asyncio
import secrets
from collections import deque
from collections.abc import Awaitable, Callable
from contextlib import suppress
from typing import Any, Generic, TypeVar

import anyio
from mcp.server.mcpserver import Context
from mcp.server.mcpserver.exceptions import ToolError
from mcp.server.session import ServerSession
from mcp.shared.message import ServerMessageMetadata
from mcp.types import (
    ClientCapabilities,
    CreateMessageRequest,
    CreateMessageResult,
    InputRequest,
    InputRequiredResult,
    ListRootsRequest,
    ListRootsResult,
)
from mcp.types.version import MODERN_PROTOCOL_VERSIONS

from rlm import events
from rlm.telemetry.progress_lines import describe

__all__ = ["Call", "Calls", "OutOfTurns"]

_T = TypeVar("_T")
_BETWEEN_PROGRESS = 0.2
_GATHER_SECONDS = 0.05
"""Children ask at about the same time: their requests go to the client together."""
_MAX_TURNS = 10
"""The SDKs' clients answer a call so many times, then they give up."""
_ABANDONED_SECONDS = 900.0
_ROOTS_SECONDS = 30.0
_REPLACED = (events.ContextLoading, events.Indexing, events.ChildEnded)
"""Figures: only the newest matters."""


class OutOfTurns(Exception):
    """The client may not be asked again within this call."""


class Call(Generic[_T]):
    """A call while it runs. `run_id` is None until its run has started. `doing` is the last line of
    progress."""

    def __init__(self, work: Callable[[Call[_T]], Awaitable[_T]]) -> None:
        self.run_id: str | None = None
        self.doing = ""
        self._work = work
        self._task: asyncio.Task[_T] | None = None
        self._session: ServerSession | None = None
        self._request_id: Any = None
        self._is_modern = False
        self._asked: dict[str, InputRequest] = {}
        self._answers: dict[str, asyncio.Future[Any]] = {}
        self._has_asked = asyncio.Event()
        self._turns = 0
        self._lines: deque[tuple[type[object], str]] = deque()
        self._has_lines = asyncio.Event()
        self._sent = 0

    # The side of the work

    @property
    def capabilities(self) -> ClientCapabilities:
        """Return what the client offers."""
        offered = None if self._session is None else self._session.client_capabilities
        return offered or ClientCapabilities()

    def on_event(self, event: events.Event) -> None:
        """Take an event of the run for the progress notifications."""
        if isinstance(event, events.RunStarted | events.Resumed) and self.run_id is None:
            self.run_id = event.run_id
        line = describe(event)
        if line is not None:
            self.say(line, type(event))

    def say(self, line: str, kind: type[object] = str) -> None:
        """Send a line as progress. It replaces a figure of the same kind that was not sent yet."""
        self.doing = line
        if kind in _REPLACED and self._lines and self._lines[-1][0] is kind:
            self._lines.pop()
        self._lines.append((kind, line))
        self._has_lines.set()

    async def roots(self) -> list[str]:
        """Return the URIs of the client's roots; none if it offers none. Raises MCPError."""
        if self.capabilities.roots is None:
            return []
        async with asyncio.timeout(_ROOTS_SECONDS):
            listed = await self._ask(ListRootsRequest(), ListRootsResult)
        return [str(root.uri) for root in listed.roots]

    async def sample(self, request: CreateMessageRequest) -> CreateMessageResult:
        """Return what the client's model answers. Raises MCPError if the client or its user refuses, and
        OutOfTurns."""
        answer: CreateMessageResult = await self._ask(request, CreateMessageResult)
        return answer

    async def _ask(self, request: Any, kind: type[Any]) -> Any:
        if not self._is_modern:
            assert self._session is not None
            related = ServerMessageMetadata(related_request_id=self._request_id)
            return await self._session.send_request(request, kind, metadata=related)
        if self._turns >= _MAX_TURNS:
            raise OutOfTurns
        key = f"r{len(self._answers)}"
        self._asked[key] = request
        self._answers[key] = asyncio.get_running_loop().create_future()
        self._has_asked.set()
        return await self._answers[key]

    # The side of the client

    async def advance(self, context: Context[Any, Any]) -> _T | None:
        """Work until the end, and return the result, or until the client must answer `asked`: None. A
        cancellation cancels the work and waits for its clean end."""
        self._session = context.session
        self._request_id = context.request_context.request_id
        self._is_modern = context.session.protocol_version in MODERN_PROTOCOL_VERSIONS
        if self._task is None:
            self._task = asyncio.ensure_future(self._start())
        asking = asyncio.ensure_future(self._has_asked.wait())
        telling = asyncio.ensure_future(self._tell(context))
        try:
            await asyncio.wait([self._task, asking], return_when=asyncio.FIRST_COMPLETED)
            if not self._task.done():
                await asyncio.sleep(_GATHER_SECONDS)
        except asyncio.CancelledError:
            # The scope that was cancelled cancels every wait within it, that for the clean end, too.
            with anyio.CancelScope(shield=True):
                await self.stop()
            raise
        finally:
            asking.cancel()
            telling.cancel()
        if self._task.done():
            # A short run ends before its lines are due.
            await self._report_lines(context)
            return self._task.result()
        self._turns += 1
        self._has_asked.clear()
        return None

    async def stop(self) -> None:
        """Cancel the work, and wait until its run is recorded as interrupted."""
        if self._task is not None:
            self._task.cancel()
            await asyncio.wait([self._task])
            with suppress(asyncio.CancelledError, Exception):
                self._task.result()

    def take_asked(self) -> dict[str, InputRequest]:
        """Return the requests that the client has not got yet."""
        asked, self._asked = self._asked, {}
        return asked

    def answer(self, responses: dict[str, Any]) -> None:
        """Give the client's responses to the work. One that is missing counts as refused."""
        for key, waiting in self._answers.items():
            if waiting.done():
                continue
            response = responses.get(key)
            if response is None:
                waiting.set_exception(ToolError("the client gave no response"))
            else:
                waiting.set_result(response)

    async def _start(self) -> _T:
        return await self._work(self)

    async def _tell(self, context: Context[Any, Any]) -> None:
        while True:
            await self._has_lines.wait()
            await self._report_lines(context)
            self._has_lines.clear()
            await asyncio.sleep(_BETWEEN_PROGRESS)

    async def _report_lines(self, context: Context[Any, Any]) -> None:
        while self._lines:
            _, line = self._lines.popleft()
            self._sent += 1
            with suppress(Exception):  # a client that is gone must not end the run
                await context.report_progress(self._sent, None, line)


class Calls:
    """The calls of a server. At most `concurrency` runs work at a time; the others wait."""

    def __init__(self, concurrency: int) -> None:
        self._concurrency = concurrency
        self._places = asyncio.Semaphore(concurrency)
        self._stopping: set[asyncio.Task[None]] = set()
        self._running: set[Call[Any]] = set()
        self._paused: dict[str, tuple[Call[Any], asyncio.TimerHandle]] = {}

    @property
    def running(self) -> tuple[Call[Any], ...]:
        """Return the calls in flight."""
        return tuple(self._running)

    async def serve(
        self, context: Context[Any, Any], work: Callable[[Call[_T]], Awaitable[_T]], *, waits: bool = False
    ) -> _T | InputRequiredResult:
        """Return the result of `work`, or what the client must answer before the call can go on. With
        `waits`, it is a run, and begins when its turn comes."""
        call: Call[_T] = self._take(context) or Call(self._within(work) if waits else work)
        result = await call.advance(context)
        if result is not None:
            return result
        state = secrets.token_urlsafe(16)
        timer = asyncio.get_running_loop().call_later(_ABANDONED_SECONDS, self._abandon, state)
        self._paused[state] = (call, timer)
        return InputRequiredResult(input_requests=call.take_asked(), request_state=state)

    async def close(self) -> None:
        """Stop all calls, those that wait for their client included."""
        paused, self._paused = self._paused, {}
        for _, timer in paused.values():
            timer.cancel()
        calls = {*(call for call, _ in paused.values()), *self._running}
        await asyncio.gather(*(call.stop() for call in calls))

    def _within(self, work: Callable[[Call[_T]], Awaitable[_T]]) -> Callable[[Call[_T]], Awaitable[_T]]:
        async def in_its_place(call: Call[_T]) -> _T:
            self._running.add(call)
            try:
                if self._places.locked():
                    call.say(f"waiting: {self._concurrency} calls are running")
                async with self._places:
                    return await work(call)
            finally:
                self._running.discard(call)

        return in_its_place

    def _take(self, context: Context[Any, Any]) -> Call[Any] | None:
        """Return the call that the client continues; None for a new one. Raises ToolError."""
        state = context.request_state
        if state is None:
            return None
        found = self._paused.pop(state, None)
        if found is None:
            raise ToolError("this call has ended: call the tool again")
        call, timer = found
        timer.cancel()
        call.answer(dict(context.input_responses or {}))
        return call

    def _abandon(self, state: str) -> None:
        found = self._paused.pop(state, None)
        if found is not None:
            stopping = asyncio.ensure_future(found[0].stop())
            self._stopping.add(stopping)
            stopping.add_done_callback(self._stopping.discard)
