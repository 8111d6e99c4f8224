"""Output bounded where it is made: a cell that prints a gigabyte costs neither memory nor minutes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import Any, TextIO

SOURCE_LIMIT = 1_000_000
"""Characters of one stream of one cell that are kept: the first part as it comes, the last at the end."""
STDERR_LIMIT = 200_000
"""The same of stderr: warnings and tracebacks, which nobody reads by the million."""
TAIL = 50_000
_JOINED_FROM = 8
_SHORT = 128
"""Characters of a piece that is held without a look at how much is held already."""


def sendable(text: str) -> str:
    """`text` as UTF-8 can carry it. A lone surrogate (any JSON may hold one) is replaced: the message that
    held it could not be sent, and whoever waits for it would wait for ever."""
    if text.isascii():
        return text
    try:
        text.encode()
    except UnicodeEncodeError:
        return text.encode("utf-8", "replace").decode()
    return text


class BoundedStream:
    """Stands in for sys.stdout or sys.stderr: passes on a cell's first characters, keeps its last ones."""

    write: Callable[[str], int]

    def __init__(self, stream: TextIO, limit: int = SOURCE_LIMIT, tail: int = TAIL) -> None:
        self._stream = stream
        self._head_limit = limit - tail
        self._tail_limit = tail
        # No more pieces than characters: none is empty, so that those left are enough.
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
        """Characters since the cell began, kept or not."""
        return self._count(False)

    def _write(self, text: str) -> bool:
        """Take a piece that is not merely counted; whether the head is full, so that short ones may be."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        room = self._head_limit - self._head
        if room > 0:
            head = sendable(text[:room])
            self._head += len(head)
            self.kept.append(head)
            self._stream.write(head)
        # One copy of what is needed: `text` may be most of what the memory holds.
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
        """Pass on the tail, with the gap named, and return all that was kept of the cell."""
        if self._tail:
            tail = sendable("".join(self._tail)[-self._tail_limit :])
            gap = self.written - self._head - len(tail)
            rest = (f"\n[… {gap:,} characters not kept …]\n" if gap else "") + tail
            self.kept.append(rest)
            self._stream.write(rest)
            self._tail.clear()
            self._tail_size = 0
        self._stream.flush()
        return "".join(self.kept)

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def _writer(
    take: Callable[[str], bool], hold: Callable[[str], object]
) -> tuple[Callable[[str], int], Callable[[bool], int]]:
    """`write`, and what tells (or, given True, resets) the characters written.

    Once `take` has said that the head is full, a short piece is counted and held, no more. A method with
    attributes takes twice the time, which is that of ten million lines.
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
