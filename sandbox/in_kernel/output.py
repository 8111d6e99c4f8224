"""Output bounded where it is made: a cell that prints a gigabyte costs neither memory nor minutes."""

from __future__ import annotations

from typing import Any, TextIO

SOURCE_LIMIT = 1_000_000
"""Characters of one stream of one cell that are kept: the first part as it comes, the last at the end."""
STDERR_LIMIT = 200_000
"""The same of stderr: warnings and tracebacks, which nobody reads by the million."""
TAIL = 50_000
_JOINED_FROM = 8


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

    def __init__(self, stream: TextIO, limit: int = SOURCE_LIMIT, tail: int = TAIL) -> None:
        self._stream = stream
        self._head_limit = limit - tail
        self._tail_limit = tail
        self.begin()

    def begin(self) -> None:
        """Start counting a new cell."""
        self.written = 0
        self.kept: list[str] = []
        self._head = 0
        self._tail: list[str] = []
        self._tail_size = 0

    def write(self, text: str) -> int:
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        size = len(text)
        self.written += size
        room = self._head_limit - self._head
        if room > 0:
            head = sendable(text[:room])
            self._head += len(head)
            self.kept.append(head)
            self._stream.write(head)
            text = text[room:]
        if text:
            # Pieces are joined once in a while, not each time: a million short lines are common.
            self._tail.append(text)
            self._tail_size += len(text)
            if self._tail_size > _JOINED_FROM * self._tail_limit:
                self._tail = ["".join(self._tail)[-self._tail_limit :]]
                self._tail_size = len(self._tail[0])
        return size

    def end(self) -> str:
        """Pass on the tail, with the gap named, and return all that was kept of the cell."""
        if self._tail:
            tail = sendable("".join(self._tail)[-self._tail_limit :])
            gap = self.written - self._head - len(tail)
            rest = (f"\n[… {gap:,} characters not kept …]\n" if gap else "") + tail
            self.kept.append(rest)
            self._stream.write(rest)
            self._tail = []
            self._tail_size = 0
        self._stream.flush()
        return "".join(self.kept)

    def flush(self) -> None:
        self._stream.flush()

    def writable(self) -> bool:
        return True

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)
