"""The kernel's end of the helper channel: calls to the driver over an inherited socket.

Any thread may call. A reader thread passes each reply to the waiting caller.
"""

from __future__ import annotations

import itertools
import signal
import socket
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from queue import SimpleQueue
from typing import Any

from . import wire

MAX_WAITING_CALLS = 48
"""Long calls in flight at once; further threads wait. The driver accepts some more calls than that, so that
an interrupt and the cell's report always find room."""
_LONG = frozenset({"children", "rank", "sub_rlms", "tool"})


class CallError(Exception):
    """The driver refused a call, or failed. `type` is an error type of the protocol."""

    def __init__(self, type_: str, message: str) -> None:
        super().__init__(message)
        self.type = type_


class Channel:
    """Owns the socket. When the driver goes away, every waiting call raises CallError("closed")."""

    def __init__(self, sock: socket.socket) -> None:
        self._socket = sock
        # The messages for each call in flight. None says that the driver has gone away.
        self._pending: dict[int, SimpleQueue[dict[str, Any] | None]] = {}
        self._numbers = itertools.count(1)
        self._writing = threading.Lock()
        self._asking = threading.BoundedSemaphore(MAX_WAITING_CALLS)
        self._closed = False
        threading.Thread(target=self._read, name="rlm-channel", daemon=True).start()

    def call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        """Return the result of a call, and the parts that arrived before it. Raises CallError.

        An interrupt while waiting cancels it at the driver and is raised again.
        """
        if method not in _LONG:
            return self._call(method, params)
        with self._asking:
            return self._call(method, params)

    def _call(self, method: str, params: dict[str, Any]) -> tuple[Any, list[Any]]:
        number = next(self._numbers)
        messages = self._pending[number] = SimpleQueue()
        parts = []
        try:
            self._send({"id": number, "method": method, "params": params})
            if self._closed:
                messages.put(None)
            while (message := messages.get()) is not None and "part" in message:
                parts.append(message["part"])
        except CallError:
            raise
        except BaseException:
            # An interrupt, perhaps before the call was sent: an unknown cancel is harmless.
            self._send({"id": number, "method": "cancel", "params": {}})
            raise
        finally:
            self._pending.pop(number, None)
        if message is None:
            raise CallError("closed", "the driver has gone away")
        error = message.get("error")
        if error is not None:
            raise CallError(str(error.get("type", "error")), str(error.get("message", "")))
        return message.get("result"), parts

    def _send(self, message: dict[str, Any]) -> None:
        try:
            frame = wire.encode(message, wire.MAX_CALL)
        except wire.WireError as error:
            raise CallError("too_large", f"this call cannot be sent: {error}") from error
        with self._writing, _block_interrupts():
            try:
                self._socket.sendall(frame)
            except OSError as error:
                raise CallError("closed", "the driver has gone away") from error

    def _read(self) -> None:
        try:
            while True:
                message = wire.decode(self._receive(wire.body_size(self._receive(wire.HEADER_SIZE))))
                messages = self._pending.get(message.get("id", 0))
                if messages is not None:
                    messages.put(message)
        except (OSError, EOFError, wire.WireError):
            self._closed = True
            for messages in list(self._pending.values()):
                messages.put(None)

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
def _block_interrupts() -> Iterator[None]:
    """Block interrupts meanwhile: one in the middle of a frame would corrupt the stream."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = signal.pthread_sigmask(signal.SIG_BLOCK, {signal.SIGINT})
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)
