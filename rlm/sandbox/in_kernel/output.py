"""Limits the output of a cell where it is written. Printing a gigabyte takes little memory and time."""

from __future__ import annotations

import io
from collections import deque
from collections.abc import Callable

SOURCE_LIMIT = 1_000_000
"""Characters kept of one stream of one cell."""
STDERR_LIMIT = 200_000
"""The same for stderr, which holds warnings and tracebacks."""
TAIL = 50_000
_JOINED_FROM = 8
_SHORT = 128
"""Characters of a piece that is stored without checking the size of the tail."""


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

    write: Callable[[str], int]
    encoding = "UTF-8"

    def __init__(self, limit: int = SOURCE_LIMIT, tail: int = TAIL) -> None:
        super().__init__()
        self._head_limit = limit - tail
        self._tail_limit = tail
        # No piece is empty, so `tail` pieces hold at least `tail` characters.
        self._tail: deque[str] = deque(maxlen=tail)
        self.write, self._count = _writer(self._write, self._tail.append)
        self.begin()

    def begin(self) -> None:
        """Start counting a new cell."""
        self._count(True)
        self.kept: list[str] = []
        self._head = 0
        self._tail.clear()
        self._tail_size = 0

    @property
    def written(self) -> int:
        """Return the characters since the cell began, kept or not."""
        return self._count(False)

    def _write(self, text: str) -> bool:
        """Write a piece, and return whether the head is full. If it is, short pieces need not come here."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        room = self._head_limit - self._head
        if room > 0:
            head = sendable(text[:room])
            self._head += len(head)
            self.kept.append(head)
        # Copy only what is needed: `text` may take most of the memory.
        text = text[max(0, room, len(text) - self._tail_limit) :]
        if text:
            self._tail.append(text)
            self._tail_size += len(text)
            if self._tail_size > _JOINED_FROM * self._tail_limit:
                joined = "".join(self._tail)[-self._tail_limit :]
                self._tail.clear()
                self._tail.append(joined)
                self._tail_size = len(joined)
        return self._head >= self._head_limit

    def end(self) -> str:
        """Return what is kept of the cell's output, with a note about the gap."""
        if self._tail:
            tail = sendable("".join(self._tail)[-self._tail_limit :])
            gap = self.written - self._head - len(tail)
            self.kept.append((f"\n[… {gap:,} characters not kept …]\n" if gap else "") + tail)
            self._tail.clear()
            self._tail_size = 0
        return "".join(self.kept)

    def writable(self) -> bool:
        return True


def _writer(
    take: Callable[[str], bool], hold: Callable[[str], object]
) -> tuple[Callable[[str], int], Callable[[bool], int]]:
    """Return `write`, and a function that returns the characters written (and resets them if given True).

    Once `take` has returned that the head is full, a short piece is only counted and held. These are closures
    because a method with attributes takes twice as long, which matters for millions of lines.
    """
    written = 0
    full = False

    def write(text: str) -> int:
        nonlocal written, full
        if full and type(text) is str and 0 < len(text) <= _SHORT:
            hold(text)
        else:
            full = take(text)
        size = len(text)
        written += size
        return size

    def count(reset: bool) -> int:
        nonlocal written, full
        if reset:
            written, full = 0, False
        return written

    return write, count
