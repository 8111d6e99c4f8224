"""The driver's end of the helper channel: what a kernel asks for, checked, handed to the handler, answered.

Every byte comes from a process that runs hostile code. A call that an honest cell could have got wrong is
answered with an error; anything else that does not fit ends the kernel.
"""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, replace
from functools import partial
from typing import Any

from rlm.sandbox.errors import ProtocolError
from rlm.sandbox.host import requests
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.context_handle.access_log import bounded
from rlm.sandbox.protocol import AnswerSink, KernelHandler
from rlm.sandbox.types import CellReport, ChildAnswer, Span

__all__ = ["Bridge", "ComputeClock"]

MAX_IN_FLIGHT = 64
MAX_LOAD = 24 * 2**20
"""Bytes, about, that the calls in flight may take of the driver's memory."""
_SMALL = 2**20
"""Calls of less are looked at even if there is no room: an interrupt is one."""
_FREE_RANKS = 3
"""Calls of rank that may fail or be cancelled before the wait for one is the cell's own time. Once one has
been answered the index is there."""
_MAX_UNREAD = 2**20
"""Bytes of answers that may wait for the kernel to read them."""

MAX_FRAGMENTS = 100_000
"""Spans that a kernel may report to have read or scanned, in all its life: the driver keeps them. One report
may hold an eighth of what is left; of more, the smallest gaps are closed."""


class ComputeClock:
    """Seconds a cell has computed: the time in which it waited for children is not counted."""

    def __init__(self) -> None:
        self._waiting = 0
        self._counted = 0.0
        self._since = time.monotonic()

    @property
    def seconds(self) -> float:
        return self._counted + (0.0 if self._waiting else time.monotonic() - self._since)

    def pause(self) -> None:
        if self._waiting == 0:
            self._counted = self.seconds
        self._waiting += 1

    def resume(self) -> None:
        self._waiting -= 1
        if self._waiting == 0:
            self._since = time.monotonic()


class Bridge:
    """Serves one kernel. `broken` is called once, with the reason, when the peer breaks the protocol.

    chars is the size of the body, against which every span is checked.
    """

    def __init__(self, handler: KernelHandler, chars: int, broken: Callable[[ProtocolError], None]) -> None:
        self._handler = handler
        self._chars = chars
        self._broken = broken
        self._calls: dict[int, asyncio.Task[None]] = {}
        self._load = 0
        self._fragments = MAX_FRAGMENTS
        self._question = 0
        self._free_ranks = _FREE_RANKS
        self._room = asyncio.Event()
        self._serving: asyncio.Task[None] | None = None
        self.clock = ComputeClock()
        self._report = CellReport()

    async def open(self, sock: socket.socket) -> None:
        """Serve the kernel at the other end of `sock`."""
        sock.setblocking(False)
        self._reader, self._writer = await asyncio.open_connection(sock=sock)
        self._writer.transport.set_write_buffer_limits(high=_MAX_UNREAD)
        self._serving = asyncio.get_running_loop().create_task(self._serve())

    async def close(self) -> None:
        """Stop serving; calls in flight are cancelled."""
        tasks = [task for task in (self._serving, *self._calls.values()) if task is not None]
        for task in tasks:
            _cancel(task)
        await asyncio.gather(*tasks, return_exceptions=True)
        if self._serving is not None:
            # Not close(): that waits until the kernel has read what is left for it.
            self._writer.transport.abort()
            with suppress(OSError):
                await self._writer.wait_closed()
            self._serving = None

    async def begin_question(self, chars: int) -> None:
        """What the kernel says from now on is of another question, over a body of `chars` characters. Calls
        in flight are ended, and their callers told."""
        calls = dict(self._calls)
        for task in calls.values():
            _cancel(task)
        await asyncio.gather(*calls.values(), return_exceptions=True)
        error = {"type": "ended", "message": "the question that this belonged to has ended"}
        for number in calls:
            # Not awaited until it is read: a kernel may never do so.
            self._writer.write(wire.encode({"id": number, "error": error}))
        self._chars = chars
        self._question += 1
        self._fragments = MAX_FRAGMENTS

    def begin_cell(self) -> None:
        """Start a new cell's clock, and forget the last one's report."""
        self.clock = ComputeClock()
        self._report = CellReport()

    def take_report(self) -> CellReport:
        """What the kernel reported of the cell; empty when it did not come to that."""
        return self._report

    async def _serve(self) -> None:
        try:
            while True:
                header = await self._reader.readexactly(wire.HEADER_SIZE)
                size = wire.body_size(header, wire.MAX_CALL)
                await self._dispatch(await self._reader.readexactly(size))
        except (asyncio.IncompleteReadError, ConnectionError):
            for task in self._calls.values():
                _cancel(task)
        except (wire.WireError, ValueError, KeyError, TypeError) as error:
            self._broken(
                ProtocolError(f"the kernel broke the helper protocol ({type(error).__name__}: {error})")
            )

    async def _dispatch(self, body: bytes) -> None:
        load = 4 * len(body) + wire.weight(body)
        if load > _SMALL:
            await self._room_for(load)
        message = wire.decode(body)
        number, method, params = message["id"], message["method"], message["params"]
        if not isinstance(number, int) or not isinstance(params, dict):
            raise ValueError("frame")
        if method == "cancel":
            task = self._calls.get(number)
            if task is not None:
                _cancel(task)
            return
        if method not in (
            "children",
            "finalize",
            "progress",
            "rank",
            "sub_rlms",
            "tool",
            "view",
            "cell_report",
        ):
            raise ValueError("method")
        await self._room_for(load)
        if number in self._calls:
            raise ValueError("id")
        self._load += load
        task = asyncio.get_running_loop().create_task(self._answer(number, method, params))
        self._calls[number] = task
        task.add_done_callback(lambda done: self._finished(number, load, done))

    async def _room_for(self, load: int) -> None:
        """Until a call of that load fits beside those in flight. Meanwhile nothing more is read."""
        while self._calls and (len(self._calls) >= MAX_IN_FLIGHT or self._load + load > MAX_LOAD):
            self._room.clear()
            await self._room.wait()

    def _finished(self, number: int, load: int, task: asyncio.Task[None]) -> None:
        self._calls.pop(number, None)
        self._load -= load
        self._room.set()
        if task.cancelled():
            return
        error = task.exception()
        if isinstance(error, ValueError):
            self._broken(ProtocolError(f"the kernel broke the helper protocol (bad {error})"))
        elif error is not None and not isinstance(error, ConnectionError):
            self._broken(ProtocolError(f"serving the kernel failed: {type(error).__name__}: {error}"))

    async def _answer(self, number: int, method: str, params: dict[str, Any]) -> None:
        try:
            result = await self._carry_out(number, method, params)
        except requests.BadCall as error:
            await self._send({"id": number, "error": {"type": error.type, "message": str(error)}})
        else:
            await self._send({"id": number, "result": result})

    async def _carry_out(self, number: int, method: str, params: dict[str, Any]) -> Any:
        match method:
            case "children":
                children = requests.child_batch(params, self._chars)
                return await self._streamed(number, partial(self._handler.children, children))
            case "sub_rlms":
                wanted = requests.sub_rlm_batch(params, self._chars)
                return await self._streamed(number, partial(self._handler.sub_rlms, wanted))
            case "finalize":
                final = requests.finalization(params, self._chars)
                return asdict(
                    await self._handler.finalize(replace(final, access=self._coarsened(final.access)))
                )
            case "progress":
                return asdict(await self._handler.progress())
            case "rank":
                return await self._rank(params)
            case "tool":
                return await self._tool(params)
            case "view":
                return {"question": self._question, "chars": self._chars}
            case _:
                self._report = self._coarsened(requests.cell_report(params, self._chars))
                return None

    def _coarsened(self, report: CellReport) -> CellReport:
        """With no more spans than are still to be had."""

        def fewer(spans: tuple[Span, ...]) -> tuple[Span, ...]:
            kept = tuple(bounded(spans, max(1, self._fragments // 8)))
            self._fragments -= len(kept)
            return kept

        return replace(report, read=fewer(report.read), scanned=fewer(report.scanned))

    async def _streamed(self, number: int, ask: Callable[[AnswerSink], Awaitable[None]]) -> None:
        """Ask, and pass each answer on as it comes. The cell's clock stands still."""
        clock = self.clock  # a call may outlive its cell: the next one has a clock of its own

        async def answered(position: int, answer: ChildAnswer) -> None:
            self._writer.write(wire.encode({"id": number, "part": [position, asdict(answer)]}))
            if self._unread():
                # Waiting for a kernel that does not read is the cell's own time.
                clock.resume()
                try:
                    await self._writer.drain()
                finally:
                    clock.pause()

        clock.pause()
        try:
            await ask(answered)
        finally:
            clock.resume()

    async def _rank(self, params: dict[str, Any]) -> list[Any]:
        query = requests.rank_query(params)
        if self._free_ranks:
            # The index may have to be built first: that is not the cell's own time.
            self._free_ranks -= 1
            clock = self.clock
            clock.pause()
            try:
                ranked = await self._handler.rank(query)
            finally:
                clock.resume()
            self._free_ranks = 0
        else:
            ranked = await self._handler.rank(query)
        return [[list(one.span), one.score, list(one.heading_path)] for one in ranked]

    async def _tool(self, params: dict[str, Any]) -> Any:
        """What a function of the host gives. The cell's clock stands still."""
        call = requests.tool_call(params)
        clock = self.clock
        clock.pause()
        try:
            return await self._handler.tool(call)
        finally:
            clock.resume()

    async def _send(self, message: dict[str, Any]) -> None:
        self._writer.write(wire.encode(message))
        if self._unread():
            await self._writer.drain()

    def _unread(self) -> bool:
        """Whether so much waits to be read that nothing more is to be made for the kernel."""
        return self._writer.transport.get_write_buffer_size() > _MAX_UNREAD


def _cancel(task: asyncio.Task[None]) -> None:
    """Once: whoever is cancelled again while clearing up leaves a kernel of a sub-RLM behind."""
    if not task.cancelling():
        task.cancel()
