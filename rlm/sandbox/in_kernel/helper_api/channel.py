"""The kernel's end of the helper channel: calls to the driver over an inherited socket.

Any thread may call. A reader thread hands each reply to the caller that waits for it.
"""

from __future__ import annotations

import itertools
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any, Protocol

from .. import wire

MAX_WAITING_CALLS = 48
"""Threads of a cell that wait at once for what takes long; more wait their turn. The driver takes some more
calls than that, so that an interrupt and the cell's report always find room."""
_LONG = frozenset({"children", "rank", "sub_rlms", "tool"})


class CallError(Exception):
    """The driver refused or failed a call. `type` is a word of the protocol, the message is for the model."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Caller(Protocol):
    """What the helpers need of a channel."""

    def call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        """The result of a call, and the parts that came before it. Raises CallError."""


class _Pending:
    __slots__ = ("done", "parts", "reply")

    def __init__(self) -> None:
        self.done = threading.Event()
        self.parts: list[Any] = []
        self.reply: dict[str, Any] | None = None


class Channel:
    """Owns the socket. When the driver goes away every waiting call fails with CallError("closed")."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        self._pending: dict[int, _Pending] = {}
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._asking = threading.BoundedSemaphore(MAX_WAITING_CALLS)
        self._closed = False
        threading.Thread(target=self._read, name="rlm-channel", daemon=True).start()

    def call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        """See Caller. An interrupt while waiting cancels the call on the driver's side, then goes on up."""
        if method not in _LONG:
            return self._call(method, params)
        with self._asking:
            return self._call(method, params)

    def _call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        number = next(self._numbers)
        pending = self._pending[number] = _Pending()
        try:
            self._send({"id": number, "method": method, "params": params})
            if self._closed:
                raise CallError("closed", "the driver has gone away")
            pending.done.wait()
        except CallError:
            raise
        except BaseException:
            # An interrupt, wherever it struck; a cancel of what was never sent does no harm.
            self._send({"id": number, "method": "cancel", "params": {}})
            raise
        finally:
            self._pending.pop(number, None)
        reply = pending.reply
        if reply is None:
            raise CallError("closed", "the driver has gone away")
        error = reply.get("error")
        if error is not None:
            raise CallError(str(error.get("type", "error")), str(error.get("message", "")))
        return reply.get("result"), pending.parts

    def _send(self, message: dict[str, Any]) -> None:
        try:
            frame = wire.encode(message, wire.MAX_CALL)
        except wire.WireError as error:
            raise CallError("too_large", f"this call can't be sent: {error}") from error
        with self._writing, _interrupts_held_back():
            try:
                self._socket.sendall(frame)
            except OSError as error:
                raise CallError("closed", "the driver has gone away") from error

    def _read(self) -> None:
        try:
            while True:
                message = wire.decode(self._receive(wire.body_size(self._receive(wire.HEADER_SIZE))))
                pending = self._pending.get(message.get("id", 0))
                if pending is None:
                    continue
                if "part" in message:
                    pending.parts.append(message["part"])
                else:
                    pending.reply = message
                    pending.done.set()
        except (OSError, EOFError, wire.WireError):
            self._closed = True
            for pending in list(self._pending.values()):
                pending.done.set()

    def _receive(self, size: int) -> bytes:
        data = bytearray(size)
        view = memoryview(data)
        while view:
            count = self._socket.recv_into(view)
            if not count:
                raise EOFError
            view = view[count:]
        return bytes(data)


@contextmanager
def _interrupts_held_back() -> Iterator[None]:
    """An interrupt between two halves of a frame would leave the stream out of step for ever."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
