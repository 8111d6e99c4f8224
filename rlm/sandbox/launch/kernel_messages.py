"""Jupyter's messages to and from one kernel, over the socket that it inherited.

jupyter_client's Session packs, signs and checks them. Every byte from the kernel is hostile: a frame is
bounded before it is read, JSON is weighed before it becomes objects, and of a reply only texts of bounded
size are kept.
"""

from __future__ import annotations

import json
import socket
from collections.abc import Mapping
from contextlib import suppress
from typing import Any

from jupyter_client.session import Session

from rlm.sandbox.in_kernel import wire

__all__ = ["KernelMessages"]

_BLOCK = 2**18
_SIGNATURE = 64
_MAX_ESCAPED = 3
_NAME_LIMIT = 200
_MESSAGE_LIMIT = 2_100
_TRACEBACK_LIMIT = 8_200
_RESULT_LIMIT = 21_000
_STREAM_LIMITS = {"stdout": 1_010_000, "stderr": 210_000}
"""Characters of each stream of one cell: the kernel's own limit, plus room for its note about a gap."""


class KernelMessages:
    """The watcher's end of a kernel's channel of cells. One request at a time is in flight; none blocks."""

    def __init__(self, cells: socket.socket, key: bytes) -> None:
        cells.setblocking(False)
        self.cells = cells
        self._session = Session(key=key, unpack=wire.decode)
        self._unsent = memoryview(b"")
        self._received = bytearray()
        self._request = ""
        self._reply = ""

    @property
    def has_unsent(self) -> bool:
        """Return whether a part of the request has not been sent: call `send` when the socket can take it."""
        return len(self._unsent) > 0

    def ask(self, kind: str, content: Mapping[str, Any], cell_id: str | None = None) -> None:
        """Begin a request. `receive` returns the reply to it."""
        metadata = {} if cell_id is None else {"cellId": cell_id}
        message = self._session.msg(f"{kind}_request", dict(content), metadata=metadata)
        self._request, self._reply = message["msg_id"], f"{kind}_reply"
        self._unsent = memoryview(wire.pack_parts(self._session.serialize(message)))
        self.send()

    def send(self) -> None:
        """Send what the socket takes of the request."""
        # A kernel that has ended is noticed where its end is received.
        with suppress(BlockingIOError, BrokenPipeError, ConnectionResetError):
            while self._unsent:
                self._unsent = self._unsent[self.cells.send(self._unsent[:_BLOCK]) :]

    def receive(self) -> dict[str, Any] | None:
        """Read what is there, some at a time. Return the reply once it is complete.

        Raises EOFError, or WireError if the kernel sends anything but the reply.
        """
        try:
            piece = self.cells.recv(_BLOCK)
        except BlockingIOError:
            return None
        except ConnectionResetError:
            piece = b""
        if not piece:
            raise EOFError
        self._received += piece
        if len(self._received) < wire.HEADER_SIZE:
            return None
        size = wire.body_size(bytes(self._received[: wire.HEADER_SIZE]))
        if len(self._received) < wire.HEADER_SIZE + size:
            return None
        body = bytes(self._received[wire.HEADER_SIZE : wire.HEADER_SIZE + size])
        if len(self._received) > wire.HEADER_SIZE + size:
            raise wire.WireError("more than the reply")
        self._received.clear()
        return self._content(wire.split_parts(body))

    def _content(self, parts: list[bytes]) -> dict[str, Any]:
        try:
            _, signed = self._session.feed_identities(parts)
            # Session remembers each signature before it compares it, whatever its length.
            if len(signed[0]) != _SIGNATURE:
                raise ValueError("no signature")
            message = self._session.deserialize(signed)
            parent, kind, content = message["parent_header"], message["msg_type"], message["content"]
            if parent.get("msg_id") != self._request or kind != self._reply or not isinstance(content, dict):
                raise ValueError("no reply to the request")
        except wire.WireError:
            raise
        except Exception as error:
            # A message of the wrong shape raises anything in Session and its adapters.
            raise wire.WireError(f"not a message of Jupyter: {type(error).__name__}") from error
        return content

    @staticmethod
    def outcome_of(reply: Mapping[str, Any]) -> dict[str, Any]:
        """Return what an execute reply says of its cell. What is missing or of another type is empty.

        An honest kernel bounds its output. A hostile one may not, so everything is bounded again here. A
        report that is cut does not parse, and the driver ends its kernel.
        """
        cell = reply.get("cell")
        if not isinstance(cell, dict):
            cell = {}
        result = cell.get("result")
        lines = reply.get("traceback")
        texts = [line for line in lines[:8] if isinstance(line, str)] if isinstance(lines, list) else []
        return {
            "ok": reply.get("status") == "ok",
            **{name: _slim(_text(cell.get(name), limit)) for name, limit in _STREAM_LIMITS.items()},
            "result": _text(result, _RESULT_LIMIT) if isinstance(result, str) else None,
            "report": _text(cell.get("report"), wire.MAX_CALL),
            "ename": _text(reply.get("ename"), _NAME_LIMIT),
            "evalue": _text(reply.get("evalue"), _MESSAGE_LIMIT),
            "traceback": "\n".join(texts)[:_TRACEBACK_LIMIT],
        }


def _slim(text: str) -> str:
    """Return `text`, cut if its control characters make it several times as large on the wire."""
    most = _MAX_ESCAPED * len(text)
    size = len(json.dumps(text, ensure_ascii=False))
    return text if size <= most + 2 else text[: len(text) * most // size]


def _text(value: object, limit: int) -> str:
    return value[:limit] if isinstance(value, str) else ""
