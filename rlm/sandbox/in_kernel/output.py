"""Limits the output of a cell where it is written. Printing a gigabyte takes little memory and time."""

from __future__ import annotations

import io

SOURCE_LIMIT = 1_000_000
"""Characters kept of one stream of one cell."""
STDERR_LIMIT = 200_000
"""The same for stderr, which holds warnings and tracebacks."""
TAIL = 50_000


def sendable(text: str) -> str:
    """Return `text` with lone surrogates replaced, so that it can be sent as UTF-8.

    Any JSON may hold a lone surrogate. A message with one could not be sent, and its receiver would hang.
    """
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


def bounded(text: str, limit: int) -> str:
    """Cut a long text to its first and last part, with a note between. The result can be sent."""
    if len(text) <= limit:
        return sendable(text)
    head = limit * 2 // 3
    tail = limit - head
    return sendable(f"{text[:head]}\n[… {len(text) - limit:,} characters not shown …]\n{text[-tail:]}")


class BoundedStream(io.TextIOBase):
    """Replaces sys.stdout or sys.stderr. Keeps a cell's first characters and its last ones, and sends none:
    they are part of the reply to the cell.
    """

    encoding = "UTF-8"

    def __init__(self, limit: int = SOURCE_LIMIT, tail: int = TAIL) -> None:
        super().__init__()
        self._head_limit = limit - tail
        self._tail_limit = tail
        self.begin()

    def begin(self) -> None:
        """Start counting a new cell. `written` is the characters since then, kept or not."""
        self.written = 0
        self.kept: list[str] = []
        self._room = self._head_limit
        self._tail: list[str] = []
        self._tail_size = 0

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        size = len(text)
        self.written += size
        room = self._room
        if room:
            self.kept.append(sendable(text[:room]))
            self._room = max(0, room - size)
            if size <= room:
                return size
        # Copy only what is needed: `text` may take most of the memory.
        if room or size > self._tail_limit:
            text = text[max(room, size - self._tail_limit) :]
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            if self._tail_size > 2 * self._tail_limit:
                self._tail = ["".join(self._tail)[-self._tail_limit :]]
                self._tail_size = self._tail_limit
        return size

    def end(self) -> str:
        """Return what is kept of the cell's output, with a note about the gap."""
        tail = "".join(self._tail)[-self._tail_limit :]
        gap = self.written - (self._head_limit - self._room) - len(tail)
        note = f"\n[… {gap:,} characters not kept …]\n" if gap else ""
        return "".join(self.kept) + note + sendable(tail)

    def writable(self) -> bool:
        return True
