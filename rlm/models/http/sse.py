"""Decode server-sent events from the bytes of a stream."""

from __future__ import annotations

from rlm.models.http.reply_limits import MAX_EVENT, ReplyTooLarge

__all__ = ["EventDecoder"]

_LINE_OVERHEAD = 40
"""Bytes that a line takes in memory besides its own."""


class EventDecoder:
    """Returns the data of each event once it is complete. An incomplete event at the end is dropped."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []
        self._size = 0

    def feed(self, chunk: bytes) -> list[bytes]:
        """Return the data of the events that end in `chunk`, in order. Raises ReplyTooLarge."""
        if self._size + len(self._rest) > MAX_EVENT:
            raise ReplyTooLarge(f"an event of more than {MAX_EVENT:,} bytes")
        rest = self._rest
        rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            return []
        lines = rest.splitlines(keepends=True)
        # A carriage return at the end may be the first half of a CRLF.
        self._rest = bytearray() if rest.endswith(b"\n") else lines.pop()
        events = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(bytes(text[5:]).removeprefix(b" "))
                self._size += _LINE_OVERHEAD + len(text)
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
                self._size = 0
        return events
