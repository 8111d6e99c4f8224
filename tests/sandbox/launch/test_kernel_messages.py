"""Test the watcher's end of the channel of cells against a hostile kernel."""

from __future__ import annotations

import asyncio
import json
import os
import socket
import threading
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any

import pytest
from jupyter_client.session import Session

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.kernel_process import KernelProcess
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.launch.kernel_messages import KernelMessages
from rlm.sandbox.types import KernelLimits

KEY = b"key"


class Peer:
    """A kernel: takes the request and answers it by hand."""

    def __init__(self) -> None:
        ours, self.socket = socket.socketpair()
        self.messages = KernelMessages(ours, KEY)
        self.session = Session(key=KEY)
        self.messages.ask("execute", {"code": "1"}, "1")
        data = self.socket.recv(1 << 16)
        _, parts = self.session.feed_identities(wire.split_parts(data[wire.HEADER_SIZE :]))
        self.request = self.session.deserialize(parts)

    def reply(self, content: Any, kind: str = "execute_reply", parent: Any = None) -> list[bytes]:
        message = self.session.msg(kind, content, parent=self.request if parent is None else parent)
        return self.session.serialize(message)

    def receive(self) -> dict[str, Any]:
        while (reply := self.messages.receive()) is None:
            pass
        return reply

    def send(self, data: bytes) -> None:
        with suppress(OSError):
            self.socket.sendall(data)

    def close(self) -> None:
        self.socket.close()
        self.messages.cells.close()


@pytest.fixture
def peer() -> Iterator[Peer]:
    made = Peer()
    yield made
    made.close()


def test_a_reply_is_read_whatever_its_pieces(peer) -> None:
    frame = wire.pack_parts(peer.reply({"status": "ok"}))
    for byte in frame[:-1]:
        peer.socket.send(bytes([byte]))
        assert peer.messages.receive() is None
    peer.socket.send(frame[-1:])
    assert peer.receive() == {"status": "ok"}


def _signed(peer: Peer, place: int, value: Any) -> list[bytes]:
    """Return a signed reply of which one part is something else."""
    parts = peer.reply({})[2:]
    parts[place] = json.dumps(value).encode()
    return [b"<IDS|MSG>", peer.session.sign(parts), *parts]


HOSTILE: dict[str, Callable[[Peer], bytes]] = {
    "noise": lambda peer: b"\x10\0\0\0" + os.urandom(16),
    "a frame too large": lambda peer: (wire.MAX_FRAME + 1).to_bytes(4, "little"),
    "an empty frame": lambda peer: bytes(4),
    "too many parts": lambda peer: wire.pack_parts([b""] * 100),
    "a part longer than its frame": lambda peer: b"\x04\0\0\0\xff\0\0\0",
    "another signature": lambda peer: wire.pack_parts([b"<IDS|MSG>", b"0" * 64, *peer.reply({})[2:]]),
    "no signature": lambda peer: wire.pack_parts([b"<IDS|MSG>", b"", *peer.reply({})[2:]]),
    "another kind": lambda peer: wire.pack_parts(peer.reply({}, "stream")),
    "a reply to nothing": lambda peer: wire.pack_parts(peer.reply({}, parent={"msg_id": "x"})),
    "the same reply twice": lambda peer: wire.pack_parts(peer.reply({})) * 2,
    "a header of the wrong shape": lambda peer: wire.pack_parts(_signed(peer, 0, {"msg_type": []})),
    "a header without fields": lambda peer: wire.pack_parts(_signed(peer, 0, {})),
    "content that is a list": lambda peer: wire.pack_parts(_signed(peer, 3, [1])),
    "a parent that is a list": lambda peer: wire.pack_parts(_signed(peer, 1, [1])),
    "a bomb": lambda peer: wire.pack_parts(peer.reply({"a": [[]] * 2_000_000})),
}


@pytest.mark.parametrize("name", HOSTILE)
def test_what_is_no_reply_breaks_the_protocol(peer, name) -> None:
    sending = threading.Thread(target=peer.send, args=(HOSTILE[name](peer),))
    sending.start()
    with pytest.raises(wire.WireError):
        peer.receive()
    peer.messages.cells.close()
    sending.join()


def test_the_end_of_the_kernel_is_noticed(peer) -> None:
    peer.socket.close()
    with pytest.raises(EOFError):
        peer.receive()


def test_a_request_waits_for_a_kernel_that_does_not_read(peer) -> None:
    peer.messages.ask("execute", {"code": "x" * 3_000_000})
    assert peer.messages.has_unsent
    received = b""
    while len(received) < 3_000_000 or peer.messages.has_unsent:
        received += peer.socket.recv(1 << 20)
        peer.messages.send()
    peer.socket.close()
    peer.messages.ask("execute", {"code": ""})


async def test_a_start_without_an_answer_is_not_waited_for(monkeypatch, forkserver) -> None:
    """A stopped watcher delays a start, and does not block it for ever."""
    process = KernelProcess(KernelLimits(start_seconds=0.2), forkserver)

    async def silent() -> dict[str, Any]:
        await asyncio.Event().wait()
        raise AssertionError

    monkeypatch.setattr(process, "event", silent)
    with pytest.raises(KernelStartError, match=r"no answer in 0\.2 s"):
        await process.start(Candidate(0, "own"))
