"""Server-sent events, out of the bytes of a stream as they come."""

from __future__ import annotations

__all__ = ["EventDecoder"]


class EventDecoder:
    """Gives the data of each event once its end is there. What a stream that breaks off leaves is none."""

    def __init__(self) -> None:
        self._rest = bytearray()
        self._data: list[bytes] = []

    def feed(self, chunk: bytes) -> list[bytes]:
        """The data of the events that end in `chunk`, in order."""
        rest = self._rest
        rest += chunk
        if b"\n" not in chunk and b"\r" not in chunk:
            return []
        lines = rest.splitlines(keepends=True)
        # A carriage return at the end may be half of a line's end.
        self._rest = bytearray() if rest.endswith(b"\n") else lines.pop()
        events = []
        for line in lines:
            text = line.rstrip(b"\r\n")
            if text.startswith(b"data:"):
                self._data.append(bytes(text[5:]).removeprefix(b" "))
            elif not text and self._data:
                events.append(b"\n".join(self._data))
                self._data = []
        return events
