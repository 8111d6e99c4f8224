"""Test the driver's end of the helper channel against a kernel that lies."""

from __future__ import annotations

import asyncio
import json
import socket
import struct
from contextlib import asynccontextmanager

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from rlm.sandbox.errors import ProtocolError
from rlm.sandbox.host.bridge import MAX_FRAGMENTS, MAX_IN_FLIGHT, Bridge
from rlm.sandbox.host.compute_clock import waiting
from rlm.sandbox.host.requests import BadCall
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.types import ChildAnswer

CHARS = 100


class Peer:
    """Holds what a hostile kernel holds: the other end of the socket."""

    def __init__(self, sock: socket.socket) -> None:
        self.socket = sock
        sock.setblocking(False)

    async def send(self, data: bytes) -> None:
        await asyncio.get_running_loop().sock_sendall(self.socket, data)

    async def call(self, method: str, params: object, number: int = 1) -> dict:
        await self.send(wire.encode({"id": number, "method": method, "params": params}))
        return await self.receive()

    async def receive(self) -> dict:
        loop = asyncio.get_running_loop()
        header = b""
        while len(header) < wire.HEADER_SIZE:
            data = await loop.sock_recv(self.socket, wire.HEADER_SIZE - len(header))
            if not data:
                raise EOFError
            header += data
        body = b""
        while len(body) < wire.body_size(header):
            body += await loop.sock_recv(self.socket, wire.body_size(header) - len(body))
        return wire.decode(body)


@asynccontextmanager
async def bridge_to(handler):
    ours, theirs = socket.socketpair()
    broken: list[ProtocolError] = []
    bridge = Bridge(handler, CHARS, broken.append)
    await bridge.open(ours)
    try:
        yield bridge, Peer(theirs), broken
    finally:
        await bridge.close()
        theirs.close()


async def wait_until(condition) -> None:
    for _ in range(500):
        if condition():
            return
        await asyncio.sleep(0.002)
    pytest.fail("nothing came of it")


EMPTY_FINAL = {"value": 1, "confidence": None, "evidence": [], "read": [], "scanned": []}
EMPTY_BATCH = {"prompts": ["q"], "slices": [None], "sample": 0, "numbered": False, "schema": None}


@pytest.mark.parametrize(
    ("method", "params"),
    [
        ("open", {}),
        ("__class__", {}),
        ("children", []),
        ("children", {**EMPTY_BATCH, "prompts": "q"}),
        ("children", {**EMPTY_BATCH, "prompts": [1]}),
        ("children", {**EMPTY_BATCH, "slices": []}),
        ("children", {**EMPTY_BATCH, "slices": [{"0": 1}]}),
        ("finalize", {"value": 1, "confidence": True, "evidence": [], "read": [], "scanned": []}),
        ("finalize", {"value": 1, "confidence": "certain", "evidence": [], "read": [], "scanned": []}),
        ("finalize", {"value": 1, "confidence": None, "evidence": [], "read": [[5, 1]], "scanned": []}),
        (
            "finalize",
            {"value": 1, "confidence": None, "evidence": [[2**60, 2**61]], "read": [], "scanned": []},
        ),
        ("finalize", {**EMPTY_FINAL, "evidence": [[0, 1, 2]]}),
        ("finalize", {**EMPTY_FINAL, "evidence": [[0, True]]}),
        ("finalize", {**EMPTY_FINAL, "evidence": [{"start": 0}]}),
        ("finalize", {**EMPTY_FINAL, "evidence": "quote"}),
        ("tool", {"name": 1, "args": [], "kwargs": {}}),
        ("tool", {"name": "x" * 101, "args": [], "kwargs": {}}),
        ("tool", {"name": "add", "args": {}, "kwargs": {}}),
        ("tool", {"name": "add", "args": [], "kwargs": []}),
        ("tool", {"name": "add", "args": []}),
        ("cell_report", {"read": [], "scanned": [], "changed": [], "rebound": []}),
    ],
)
async def test_a_call_no_honest_kernel_sends_breaks_the_bridge_once(handler, method, params) -> None:
    """Methods are on an allow-list, arguments are validated against types, and spans are checked."""
    async with bridge_to(handler) as (_, peer, broken):
        await peer.send(wire.encode({"id": 1, "method": method, "params": params}))
        await wait_until(lambda: broken)
        assert len(broken) == 1
        assert handler.batches == handler.finals == handler.tools == []


@pytest.mark.parametrize(
    "data",
    [
        struct.pack("<I", 2**31),
        struct.pack("<I", 3) + b"{}x",
        struct.pack("<I", 2) + b"[]",
        struct.pack("<I", 100_000) + b"[" * 100_000,
        struct.pack("<I", 2) + b"{}",
        struct.pack("<I", 12) + b'{"id":"one"}',
    ],
)
async def test_malformed_frames_break_the_bridge(handler, data) -> None:
    async with bridge_to(handler) as (_, peer, broken):
        await peer.send(data)
        await wait_until(lambda: broken)


FRAMES = st.binary(max_size=60) | st.dictionaries(
    st.sampled_from(["id", "method", "params", "x"]),
    st.none()
    | st.integers()
    | st.text(max_size=4)
    | st.sampled_from(["children", "progress", "cancel"])
    | st.dictionaries(
        st.sampled_from(["prompts", "slices", "read"]), st.lists(st.text(max_size=2), max_size=2)
    ),
).map(lambda message: json.dumps(message).encode())


@given(frames=st.lists(FRAMES, max_size=5))
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
async def test_whatever_a_kernel_sends_the_driver_continues(handler, frames) -> None:
    """Any bytes end in a broken bridge or an answer, never in an exception."""
    async with bridge_to(handler) as (_, peer, broken):
        for frame in frames:
            await peer.send(struct.pack("<I", len(frame)) + frame)
        peer.socket.shutdown(socket.SHUT_WR)
        await asyncio.sleep(0.005)
        assert len(broken) <= 1


async def test_a_mistake_of_an_honest_cell_is_only_reported(handler) -> None:
    async with bridge_to(handler) as (_, peer, broken):
        reply = await peer.call("children", {**EMPTY_BATCH, "slices": [[[0, CHARS + 1]]]})
        assert reply["error"]["type"] == "value"
        assert "100 characters" in reply["error"]["message"]
        assert (await peer.call("progress", {}, number=2))["result"]["has_final_answer"] is False
        assert broken == []


async def test_an_answer_nested_without_end_is_refused(handler) -> None:
    """A kernel's frame must not recurse in the driver."""
    value: object = 1
    for _ in range(700):
        value = [value]
    async with bridge_to(handler) as (_, peer, broken):
        reply = await peer.call(
            "finalize", {"value": value, "confidence": None, "evidence": [], "read": [], "scanned": []}
        )
        assert "nested deeper" in reply["error"]["message"]
        assert handler.finals == broken == []


async def test_calls_in_flight_are_bounded(handler) -> None:
    gate = asyncio.Event()
    handler.before_answer = gate.wait
    async with bridge_to(handler) as (_, peer, broken):
        for number in range(1, 2 * MAX_IN_FLIGHT + 1):
            await peer.send(wire.encode({"id": number, "method": "children", "params": EMPTY_BATCH}))
        await wait_until(lambda: len(handler.batches) == MAX_IN_FLIGHT)
        await asyncio.sleep(0.05)
        assert len(handler.batches) == MAX_IN_FLIGHT
        gate.set()
        await wait_until(lambda: len(handler.batches) == 2 * MAX_IN_FLIGHT)
        assert broken == []


async def test_large_calls_in_flight_are_bounded_by_their_size(handler) -> None:
    """The bound counts bytes of the driver's memory as well."""
    gate = asyncio.Event()
    handler.before_answer = gate.wait
    batch = {**EMPTY_BATCH, "slices": [["x" * 2_000_000]]}
    async with bridge_to(handler) as (_, peer, broken):
        sending = asyncio.ensure_future(
            peer.send(
                b"".join(
                    wire.encode({"id": number, "method": "children", "params": batch}) for number in range(8)
                )
            )
        )
        await wait_until(lambda: len(handler.batches) == 2)
        await asyncio.sleep(0.05)
        assert len(handler.batches) < 4
        gate.set()
        await wait_until(lambda: len(handler.batches) == 8)
        await sending
        assert broken == []


@pytest.mark.parametrize("size", [wire.MAX_CALL + 1, wire.MAX_FRAME])
async def test_a_kernels_frames_are_smaller_than_the_drivers(handler, size) -> None:
    async with bridge_to(handler) as (_, peer, broken):
        await peer.send(struct.pack("<I", size))
        await wait_until(lambda: broken)


async def test_answers_that_nobody_reads_hold_back_the_children(handler) -> None:
    """Unread replies do not pile up in the driver, cost the cell its time, and do not keep the bridge from
    closing.
    """
    made = 0

    async def children(batch, answered) -> None:
        nonlocal made
        for position in range(len(batch.prompts)):
            await answered(position, ChildAnswer("a" * 100_000))
            made += 1

    handler.children = children
    batch = {**EMPTY_BATCH, "prompts": ["q"] * 1_000, "slices": [None] * 1_000}
    async with bridge_to(handler) as (bridge, peer, broken):
        await peer.send(wire.encode({"id": 1, "method": "children", "params": batch}))
        await wait_until(lambda: made > 5)
        await asyncio.sleep(0.05)
        assert made < 100
        before = bridge.clock.seconds
        await asyncio.sleep(0.05)
        assert bridge.clock.seconds > before
        assert broken == []
        await asyncio.wait_for(bridge.close(), 2.0)


async def test_a_value_nested_too_deeply_is_reported(handler) -> None:
    value: list[object] = []
    for _ in range(200):
        value = [value]
    claim = {"value": value, "confidence": None, "evidence": [], "read": [], "scanned": []}
    async with bridge_to(handler) as (_, peer, broken):
        reply = await peer.call("finalize", claim)
        assert "nested" in reply["error"]["message"]
        assert broken == handler.finals == []


async def test_a_cancelled_call_is_not_answered(handler) -> None:
    gate = asyncio.Event()
    handler.before_answer = gate.wait
    async with bridge_to(handler) as (bridge, peer, broken):
        await peer.send(wire.encode({"id": 1, "method": "children", "params": EMPTY_BATCH}))
        await wait_until(lambda: handler.batches)
        await peer.send(wire.encode({"id": 1, "method": "cancel", "params": {}}))
        assert (await peer.call("progress", {}, number=2))["id"] == 2
        assert broken == []
        assert bridge.clock.seconds < 5


class _Clearing:
    """Children that are never answered, and that take a moment to release their resources."""

    def __init__(self) -> None:
        self.begun, self.ending = asyncio.Event(), asyncio.Event()
        self.cleared: list[str] = []

    async def __call__(self, batch, answered) -> None:
        self.begun.set()
        try:
            await asyncio.Event().wait()
        finally:
            self.ending.set()
            await asyncio.sleep(0.05)
            self.cleared.append("whole")


async def test_a_call_is_cancelled_once_and_clears_up(handler) -> None:
    """The kernel dies, then the bridge is closed. The call's resources are released in between."""
    clearing = handler.children = _Clearing()
    async with bridge_to(handler) as (_, peer, _broken):
        await peer.send(wire.encode({"id": 1, "method": "children", "params": EMPTY_BATCH}))
        await clearing.begun.wait()
        peer.socket.close()
        await asyncio.sleep(0.01)
    assert clearing.cleared == ["whole"]


async def test_the_next_question_does_not_cut_short_a_call_that_clears_up(handler) -> None:
    """An interrupt has ended the call already, and its resources are released."""
    clearing = handler.children = _Clearing()
    async with bridge_to(handler) as (bridge, peer, broken):
        await peer.send(wire.encode({"id": 1, "method": "children", "params": EMPTY_BATCH}))
        await clearing.begun.wait()
        await peer.send(wire.encode({"id": 1, "method": "cancel", "params": {}}))
        await clearing.ending.wait()
        await bridge.begin_question(CHARS, bridge._handler)
        assert clearing.cleared == ["whole"]
        assert not broken


async def test_a_call_that_outlives_its_cell_leaves_the_next_clock_alone(handler) -> None:
    gate = asyncio.Event()

    async def in_flight(event: asyncio.Event = gate) -> None:
        with waiting():
            await event.wait()

    handler.before_answer = in_flight
    async with bridge_to(handler) as (bridge, peer, _):
        await peer.send(wire.encode({"id": 1, "method": "children", "params": EMPTY_BATCH}))
        await wait_until(lambda: handler.batches)
        bridge.begin_cell()
        gate.set()
        await peer.receive()
        handler.before_answer = lambda: in_flight(asyncio.Event())
        await peer.send(wire.encode({"id": 2, "method": "children", "params": EMPTY_BATCH}))
        await wait_until(lambda: len(handler.batches) == 2)
        standing = bridge.clock.seconds
        await asyncio.sleep(0.02)
        assert bridge.clock.seconds == standing


async def test_validation_counts_as_the_cells_own_time(handler) -> None:
    """Only a handler that waits for a model pauses the clock: looking into a batch does not."""
    looking = asyncio.Event()
    handler.before_answer = looking.wait
    async with bridge_to(handler) as (bridge, peer, _):
        await peer.send(wire.encode({"id": 1, "method": "children", "params": EMPTY_BATCH}))
        await wait_until(lambda: handler.batches)
        before = bridge.clock.seconds
        await asyncio.sleep(0.03)
        assert bridge.clock.seconds - before >= 0.02


async def test_a_batch_of_too_many_children_is_an_error_of_the_cell(handler) -> None:
    """A mistake that an honest cell makes: many small chunks."""
    many = {**EMPTY_BATCH, "prompts": ["q"] * 60_000, "slices": [None] * 60_000}
    async with bridge_to(handler) as (_, peer, broken):
        reply = await peer.call("children", many)
        assert "60,000 children in one call are over the limit of 10,000" in reply["error"]["message"]
        assert broken == handler.batches == []


async def test_what_a_kernel_claims_to_have_read_takes_a_bounded_room(handler) -> None:
    """Every claim is forgeable. One that is repeated without end must not fill the driver."""
    ours, theirs = socket.socketpair()
    bridge = Bridge(handler, 10**9, lambda error: pytest.fail(str(error)))
    await bridge.open(ours)
    peer = Peer(theirs)
    try:
        spans = [[20 * number, 20 * number + 1] for number in range(10_000)]
        for number in range(40):
            params = {"value": 1, "evidence": [], "read": spans, "scanned": spans}
            await peer.call("finalize", params, number)
        report = json.dumps({"read": spans, "scanned": [], "changed": [], "rebound": []})
        first, last = handler.finals[0].access, handler.finals[-1].access
        assert len(first.read) == len(first.scanned) == 10_000
        assert len(last.read) == len(bridge.read_report(report).read) == 1
        assert list(last.read[0]) in spans
        assert sum(len(final.access.read + final.access.scanned) for final in handler.finals) <= (
            MAX_FRAGMENTS + 100
        )
        # The next question has its own account.
        await bridge.begin_question(10**9, bridge._handler)
        assert len(bridge.read_report(report).read) == 10_000
    finally:
        await bridge.close()
        theirs.close()


async def test_ranked_spans_cross_as_numbers(handler) -> None:
    """Only spans cross, no text."""
    async with bridge_to(handler) as (_, peer, broken):
        reply = await peer.call("rank", {"query": "a b", "k": 1})
        assert reply["result"] == [[[0, 3], 1.5, ["Top", "Under"]]]
        refused = await peer.call("rank", {"query": "refuse", "k": 1}, number=2)
        assert refused["error"] == {"type": "value", "message": "no room for an index"}
        assert broken == []
    assert [query.k for query in handler.queries] == [1, 1]


@pytest.mark.parametrize(
    "params", [{}, {"query": 1, "k": 1}, {"query": "x", "k": True}, {"query": "x", "k": "1"}]
)
async def test_a_forged_rank_call_ends_the_kernel(handler, params) -> None:
    """Nothing on the channel is trusted."""
    async with bridge_to(handler) as (_, peer, broken):
        await peer.send(wire.encode({"id": 1, "method": "rank", "params": params}))
        await wait_until(lambda: broken)
    assert handler.queries == []


async def test_only_the_first_ranking_is_not_the_cells_own_time(handler) -> None:
    """The first ranking may build the index. A cell that ranks for ever must not be free."""
    counted: list[float] = []

    async def rank(query):
        before = bridge.clock.seconds
        await asyncio.sleep(0.03)
        counted.append(bridge.clock.seconds - before)
        return []

    handler.rank = rank
    async with bridge_to(handler) as (bridge, peer, _):
        await peer.call("rank", {"query": "x", "k": 1})
        await peer.call("rank", {"query": "x", "k": 1}, number=2)
    assert counted[0] == 0.0
    assert counted[1] > 0


async def test_rankings_that_fail_are_not_free_for_ever(handler) -> None:
    """Calls that cost nothing gain no time."""

    async def rank(query):
        await asyncio.sleep(0.03)
        raise BadCall("value", "no")

    handler.rank = rank
    async with bridge_to(handler) as (bridge, peer, _):
        for number in range(3):
            await peer.call("rank", {"query": "x", "k": 1}, number=number)
        free = bridge.clock.seconds
        await peer.call("rank", {"query": "x", "k": 1}, number=9)
        assert bridge.clock.seconds - free >= 0.03


async def test_a_tools_call_and_its_failure_cross(handler) -> None:
    """The driver runs the tool, and its failure is raised in the cell."""
    async with bridge_to(handler) as (_, peer, broken):
        given = {"name": "add", "args": [1, [2]], "kwargs": {"c": None}}
        assert (await peer.call("tool", given))["result"] == given
        failed = await peer.call("tool", {**given, "name": "refuse"})
        assert failed["error"] == {"type": "tool", "message": "refuse() failed: ValueError: no"}
        many = await peer.call("tool", {**given, "args": [0] * 1_000})
        assert many["error"]["type"] == "type"
        deep: object = 1
        for _ in range(200):
            deep = [deep]
        assert "nested deeper" in (await peer.call("tool", {**given, "args": [deep]}))["error"]["message"]
        assert len(handler.tools) == 2
        assert not broken


async def test_the_clock_stands_still_while_a_tool_runs(handler) -> None:
    seen = []

    async def tool(call) -> None:
        before = bridge.clock.seconds
        await asyncio.sleep(0.02)
        seen.append(bridge.clock.seconds - before)

    handler.tool = tool
    async with bridge_to(handler) as (bridge, peer, _):
        bridge.begin_cell()
        await peer.call("tool", {"name": "slow", "args": [], "kwargs": {}})
        await asyncio.sleep(0.01)
        assert seen == [0.0]
        assert bridge.clock.seconds > 0


async def test_a_kernel_that_does_not_read_cant_hold_up_the_next_question(handler) -> None:
    """Its calls in flight are ended and reported, whether or not it reads."""
    begun = asyncio.Event()

    async def tool(call) -> str:
        if call.name == "large":
            return "x" * 900_000
        begun.set()
        return await asyncio.Event().wait()

    handler.tool = tool
    async with bridge_to(handler) as (bridge, peer, broken):
        for number, name in enumerate(["large"] * 4 + ["never"]):
            params = {"name": name, "args": [], "kwargs": {}}
            await peer.send(wire.encode({"id": number, "method": "tool", "params": params}))
        await begun.wait()
        await asyncio.wait_for(bridge.begin_question(7, bridge._handler), 5)
        replies = [await peer.receive()]
        while replies[-1]["id"] != 4:
            replies.append(await peer.receive())
        assert replies[-1]["error"]["message"] == "the question of this call has ended"
        assert await peer.call("view", {}, 9) == {"id": 9, "result": {"question": 1, "chars": 7}}
        assert not broken
