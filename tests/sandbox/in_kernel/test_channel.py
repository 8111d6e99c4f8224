"""Test the kernel's end of the helper channel; the test plays the driver's end."""

from __future__ import annotations

import socket
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from typing import BinaryIO

import pytest

from rlm.sandbox.host.bridge import MAX_IN_FLIGHT
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.channel import MAX_WAITING_CALLS, Channel


class Driver:
    """Reads calls, and answers on command."""

    def __init__(self, stream: BinaryIO) -> None:
        self._stream = stream

    def receive(self) -> dict[str, object]:
        size = wire.body_size(self._stream.read(wire.HEADER_SIZE))
        return wire.decode(self._stream.read(size))

    def answer(self, number: object, result: object) -> None:
        self._stream.write(wire.encode({"id": number, "result": result}))
        self._stream.flush()


@pytest.fixture
def threads() -> Iterator[ThreadPoolExecutor]:
    with ThreadPoolExecutor(MAX_IN_FLIGHT + 1) as pool:
        yield pool


@pytest.fixture
def ends(threads: ThreadPoolExecutor) -> Iterator[tuple[Channel, Driver]]:
    """Yield both ends. They are closed before the threads are joined, so that waiting callers are told."""
    ours, theirs = socket.socketpair()
    theirs.settimeout(20)
    with ours, theirs, theirs.makefile("rwb") as stream:
        yield Channel(ours), Driver(stream)
        theirs.shutdown(socket.SHUT_RDWR)


@pytest.mark.parametrize("method", ["children", "rank", "sub_rlms", "tool"])
def test_calls_that_take_long_leave_room_for_the_cells_own(
    ends: tuple[Channel, Driver], threads: ThreadPoolExecutor, method: str
) -> None:
    """Calls work from threads. More calls than the driver accepts do not delay the end of a cell."""
    channel, driver = ends
    calls = [threads.submit(channel.call, method, {}) for _ in range(MAX_IN_FLIGHT)]
    waiting = [driver.receive() for _ in range(MAX_WAITING_CALLS)]
    report = threads.submit(channel.call, "progress", {})
    report_call = driver.receive()
    assert report_call["method"] == "progress"
    driver.answer(report_call["id"], "told")
    assert report.result(20) == ("told", [])
    for number in range(MAX_IN_FLIGHT):
        call = waiting[number] if number < len(waiting) else driver.receive()
        assert call["method"] == method
        driver.answer(call["id"], number)
    assert sorted(call.result(20)[0] for call in calls) == list(range(MAX_IN_FLIGHT))
