"""The driver's end of the helper channel. Checks a kernel's calls, passes them to the handler, and replies.

Every byte comes from a process that runs hostile code. An honest cell may make mistakes; these are answered
with an error. Any other invalid input shuts the kernel down.
"""

from __future__ import annotations

import asyncio
import socket
from collections.abc import Awaitable, Callable, Mapping
from contextlib import suppress
from contextvars import copy_context
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rlm.sandbox.errors import ProtocolError
from rlm.sandbox.host import requests
from rlm.sandbox.host.compute_clock import ComputeClock, serve_with, waiting
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.access_log import bounded
from rlm.sandbox.in_kernel.wire import MAX_OFFSET
from rlm.sandbox.protocol import AnswerSink, KernelHandler
from rlm.sandbox.types import CellReport, ChildAnswer, RankQuery, Span

__all__ = ["Bridge", "find_lone_surrogate", "may_hold_surrogates"]

MAX_IN_FLIGHT = 64
MAX_LOAD = 24 * 2**20
"""Estimated bytes of driver memory that the calls in flight may take."""
_SMALL_FRAME = 2**20
"""Frames below this size are decoded even when there is no room, because a frame may be a cancel."""
_UNTIMED_RANKS = 3
"""Calls of `rank` that pause the cell's clock, because the first one may build the index. After one success,
the index exists, and later calls count as the cell's own time."""
_MAX_UNREAD_BYTES = 2**20
"""Bytes of replies that may wait for the kernel to read them."""

_READERS: Mapping[str, Callable[[Mapping[str, Any], int], object] | None] = {
    "children": requests.child_batch,
    "chunk_chars": None,
    "finalize": requests.finalization,
    "progress": None,
    "rank": requests.rank_query,
    "sub_rlms": requests.sub_rlm_batch,
    "tool": requests.tool_call,
    "view": None,
}
"""What a kernel may call, and what checks its parameters."""

_ENDED = {"type": "ended", "message": "the question of this call has ended"}

MAX_FRAGMENTS = 100_000
"""Limit of the spans that a kernel may report as read or scanned for one question, because the driver keeps
them. One report may use an eighth of what is left. Only the longest spans of a larger report are kept."""


class Bridge:
    """Serves one kernel. Calls `on_violation` with the reason if the kernel breaks the protocol.

    `chars` is the size of the body. Every span is checked against it.
    """

    def __init__(
        self, handler: KernelHandler, chars: int, on_violation: Callable[[ProtocolError], None]
    ) -> None:
        self._handler = handler
        self._chars = chars
        self._on_violation = on_violation
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._load = 0
        self._spans_left = MAX_FRAGMENTS
        self._question = 0
        self._awaits_view = False
        self._untimed_ranks = _UNTIMED_RANKS
        self._room = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self.clock = ComputeClock()
        self._context = copy_context()

    async def open(self, sock: socket.socket) -> None:
        """Serve the kernel at the other end of `sock`."""
        sock.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=sock)
        self._writer.transport.set_write_buffer_limits(high=_MAX_UNREAD_BYTES)
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def close(self) -> None:
        """Stop serving and cancel the calls in flight."""
        tasks = [task for task in (self._serving, *self._calls.values()) if task is not None]
        for task in tasks:
            _cancel(task)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._serving is not None:
            # abort and not close: close would wait until the kernel has read all replies.
            self._writer.transport.abort()
            with suppress(OSError):
                await self._writer.wait_closed()
            self._serving = None

    async def begin_question(self, chars: int, handler: KernelHandler, *, shared: bool = False) -> None:
        """Start serving another question, over a body of `chars` characters, with its `handler`.

        Calls in flight are cancelled, and their callers get an error. A `shared` kernel first asks what the
        question covers. Calls before that come from threads that an earlier cell left.
        """
        calls = dict(self._calls)
        for task in calls.values():
            _cancel(task)
        await asyncio.gather(*calls.values(), return_exceptions=True)
        for number in calls:
            # No drain, because the kernel may never read it.
            self._writer.write(wire.encode({"id": number, "error": _ENDED}))
        self._chars, self._handler = chars, handler
        self._awaits_view = shared
        self._question += 1
        self._spans_left = MAX_FRAGMENTS

    def begin_cell(self) -> None:
        """Start the clock of a new cell. Its calls are served in the caller's context: context variables, as
        those of OpenTelemetry, tell what belongs to the cell."""
        self.clock = ComputeClock()
        self._context = copy_context()

    def read_report(self, words: str) -> CellReport:
        """Return the kernel's report of a cell, which came as JSON with the cell's result. It is empty if the
        kernel sent none, or broke the protocol."""
        if not words:
            return CellReport()
        try:
            body = words.encode()
            params = wire.decode(body)
            if may_hold_surrogates(body) and find_lone_surrogate(params) is not None:
                raise ValueError("a lone surrogate")
            return self._limit_spans(requests.cell_report(params, self._chars))
        except (wire.WireError, ValueError) as error:
            self._on_violation(ProtocolError(f"the kernel sent a malformed report of a cell ({error})"))
            return CellReport()

    async def _serve(self) -> None:
        # Frames are read one at a time. `_dispatch` returns only when there is room for the call. Until then
        # nothing is read, the socket fills up and the kernel blocks, so hostile code cannot make the driver
        # hold more than MAX_LOAD. The honest end of the channel never has more than MAX_IN_FLIGHT calls, so
        # an interrupt is always read. A closed socket is a normal end and cancels the calls. Any other error
        # means that the kernel broke the protocol; `on_violation` kills it.
        try:
            while True:
                header = await self._reader.readexactly(wire.HEADER_SIZE)
                size = wire.body_size(header, wire.MAX_CALL)
                await self._dispatch(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            for task in self._calls.values():
                _cancel(task)
        except (wire.WireError, ValueError, KeyError, TypeError) as error:
            self._on_violation(
                ProtocolError(f"the kernel broke the helper protocol ({type(error).__name__}: {error})")
            )

    async def _dispatch(self, body: bytes) -> None:
        load = 4 * len(body) + wire.weight(body)
        if load > _SMALL_FRAME:
            await self._wait_for_room(load)
        message = wire.decode(body)
        number, method, params = message["id"], message["method"], message["params"]
        if not isinstance(number, int) or not isinstance(params, dict) or not isinstance(method, str):
            raise ValueError("frame")
        if not 0 <= number <= MAX_OFFSET:
            # The number is sent back, and may have thousands of digits.
            raise ValueError("id")
        if method == "cancel":
            task = self._calls.get(number)
            if task is not None:
                _cancel(task)
            return
        if method not in _READERS:
            raise ValueError("method")
        await self._wait_for_room(load)
        if number in self._calls:
            raise ValueError("id")
        broken = find_lone_surrogate(params) if may_hold_surrogates(body) else None
        self._load += load
        task = asyncio.get_running_loop().create_task(
            self._answer(number, method, params, broken), context=self._context.copy()
        )
        self._calls[number] = task
        task.add_done_callback(lambda done: self._finish(number, load, done))

    async def _wait_for_room(self, load: int) -> None:
        """Wait until there is room for a call of that load. Nothing is read meanwhile."""
        while self._calls and (len(self._calls) >= MAX_IN_FLIGHT or self._load + load > MAX_LOAD):
            self._room.clear()
            await self._room.wait()

    def _finish(self, number: int, load: int, task: asyncio.Task[None]) -> None:
        self._calls.pop(number, None)
        self._load -= load
        self._room.set()
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ValueError):
            self._on_violation(ProtocolError(f"the kernel broke the helper protocol (bad {error})"))
        elif error is not None and not isinstance(error, ConnectionError):
            self._on_violation(ProtocolError(f"serving the kernel failed: {type(error).__name__}: {error}"))

    async def _answer(
        self, number: int, method: str, params: dict[str, Any], broken: str | None = None
    ) -> None:
        # The clock of the cell that made the call: the call may outlive its cell, and the next has a new one.
        serve_with(self.clock)
        if method == "view":
            self._awaits_view = False
        elif self._awaits_view:
            await self._send({"id": number, "error": _ENDED})
            return
        try:
            if broken is not None:
                raise requests.BadCall(
                    "value",
                    f"{broken!a} holds a lone surrogate, which is not a character. Remove it: "
                    "text.encode('utf-8', 'replace').decode()",
                )
            result = await self._execute(number, method, params)
        except requests.BadCall as error:
            await self._send({"id": number, "error": {"type": error.type, "message": str(error)}})
        else:
            await self._send({"id": number, "result": result})

    async def _execute(self, number: int, method: str, params: dict[str, Any]) -> Any:
        read = _READERS[method]
        given: Any = None if read is None else read(params, self._chars)
        match method:
            case "children":
                return await self._stream(number, partial(self._handler.children, given))
            case "sub_rlms":
                return await self._stream(number, partial(self._handler.sub_rlms, given))
            case "finalize":
                final = replace(given, access=self._limit_spans(given.access))
                return asdict(await self._handler.finalize(final))
            case "chunk_chars":
                return await self._handler.chunk_chars()
            case "progress":
                return asdict(await self._handler.progress())
            case "rank":
                return await self._rank(given)
            case "tool":
                with waiting():
                    return await self._handler.tool(given)
            case _:
                return {"question": self._question, "chars": self._chars}

    def _limit_spans(self, report: CellReport) -> CellReport:
        """Return the report with no more spans than the kernel may still report."""

        def limit(spans: tuple[Span, ...]) -> tuple[Span, ...]:
            kept = tuple(bounded(spans, max(1, self._spans_left // 8)))
            self._spans_left -= len(kept)
            return kept

        return replace(report, read=limit(report.read), scanned=limit(report.scanned))

    async def _stream(self, number: int, ask: Callable[[AnswerSink], Awaitable[None]]) -> None:
        """Call the handler and send each answer as it arrives.

        The handler pauses the cell's clock while a model call is in flight. Waiting for a kernel that does
        not read counts as the cell's own time.
        """

        async def answered(position: int, answer: ChildAnswer) -> None:
            await self._send({"id": number, "part": [position, answer.to_json()]})

        await ask(answered)

    async def _rank(self, query: RankQuery) -> list[Any]:
        if self._untimed_ranks:
            # The index may have to be built first, which must not count as the cell's own time.
            self._untimed_ranks -= 1
            with waiting():
                ranked = await self._handler.rank(query)
            self._untimed_ranks = 0
        else:
            ranked = await self._handler.rank(query)
        return [[list(one.span), one.score, list(one.heading_path)] for one in ranked]

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(wire.encode(message))
        if self._is_behind():
            await self._writer.drain()

    def _is_behind(self) -> bool:
        """Return whether the kernel has too many unread bytes, so that the driver must wait."""
        return self._writer.transport.get_write_buffer_size() > _MAX_UNREAD_BYTES


def _cancel(task: asyncio.Task[None]) -> None:
    """Cancel a task once. A second cancel would interrupt its clean-up and leak the kernel of a sub-RLM."""
    if not task.cancelling():
        task.cancel()


def may_hold_surrogates(frame: bytes) -> bool:
    """Return whether the strings of a JSON text may hold a lone surrogate. Raw UTF-8 cannot hold one."""
    return b"\\ud" in frame or b"\\uD" in frame


def find_lone_surrogate(value: object) -> str | None:
    """Return an excerpt around the first lone surrogate in the strings of a JSON value, or None."""
    waiting = [value]
    while waiting:
        one = waiting.pop()
        if isinstance(one, dict):
            waiting += one.keys()
            waiting += one.values()
        elif isinstance(one, list):
            waiting += one
        elif isinstance(one, str):
            try:
                one.encode()
            except UnicodeEncodeError as error:
                return one[max(0, error.start - 10) : error.start + 10]
    return None
