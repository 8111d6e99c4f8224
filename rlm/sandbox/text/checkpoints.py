"""Converts between characters, bytes and lines of a body's file in a few reads, whatever its size.

For every BLOCK bytes the index stores how many characters and how many line ends come before. Offsets refer
to the whole file.
"""

from __future__ import annotations

import sys
from bisect import bisect_left, bisect_right
from collections.abc import Callable
from typing import Any

__all__ = ["BLOCK", "Checkpoints", "count_chars", "count_line_ends"]

BLOCK = 16 * 1024
"""Bytes between two checkpoints."""
_CONTINUATION = bytes(range(0x80, 0xC0))
_SAMPLE = 1024
_LONG_LINE = 64
"""Bytes of a line from which `replace` is faster than `count`."""
_COUNTS_FAST = sys.version_info >= (3, 13)


def count_chars(block: bytes) -> int:
    """Count the characters that begin in `block`, a piece of valid UTF-8 cut anywhere."""
    return len(block) if block.isascii() else len(block.translate(None, _CONTINUATION))


def count_line_ends(block: bytes) -> int:
    """Count the line ends in `block`."""
    # Before Python 3.13, `count` looks at each byte in turn, while `replace` leaps from one find to the next.
    if _COUNTS_FAST or block.count(b"\n", 0, _SAMPLE) * _LONG_LINE > _SAMPLE:
        return block.count(b"\n")
    return len(block) - len(block.replace(b"\n", b""))


class Checkpoints:
    """The file of a body with its checkpoints. `read` returns its bytes from one offset to another."""

    __slots__ = ("_ascii", "_char_marks", "_line_marks", "bytes", "chars", "lines", "read")

    def __init__(
        self,
        read: Callable[[int, int], bytes],
        char_marks: Any,
        line_marks: Any,
        *,
        chars: int,
        bytes: int,
        lines: int,
    ) -> None:
        self.read = read
        self._char_marks = char_marks
        self._line_marks = line_marks
        self.chars = chars
        self.bytes = bytes
        self.lines = lines
        self._ascii = chars == self.bytes

    def byte_of(self, char: int) -> int:
        """Return the byte at which character `char` begins. `chars` and beyond give the end of the file."""
        if char <= 0:
            return 0
        if char >= self.chars:
            return self.bytes
        if self._ascii:
            return char
        mark = bisect_right(self._char_marks, char) - 1
        start = mark * BLOCK
        block = self.read(start, min(self.bytes, start + BLOCK))
        # A block may begin inside a character, which counts to the block before.
        inside = next(i for i in range(4) if block[i] & 0xC0 != 0x80)
        wanted = char - self._char_marks[mark]
        return start + inside + len(block.decode("utf-8", "ignore")[:wanted].encode())

    def char_of(self, byte: int) -> int:
        """Return the first character that begins at `byte` or after it."""
        if byte <= 0:
            return 0
        if byte >= self.bytes:
            return self.chars
        if self._ascii:
            return byte
        mark = byte // BLOCK
        return int(self._char_marks[mark]) + count_chars(self.read(mark * BLOCK, byte))

    def line_of_byte(self, byte: int) -> int:
        """Return the number (from 0) of the line that holds this byte."""
        mark = byte // BLOCK
        return int(self._line_marks[mark]) + self.read(mark * BLOCK, byte).count(b"\n")

    def line_start_byte(self, line: int) -> int:
        """Return the byte at which line `line` begins. `lines` and beyond give `bytes`."""
        if line <= 0:
            return 0
        if line >= self.lines:
            return self.bytes
        mark = bisect_left(self._line_marks, line) - 1
        wanted = line - self._line_marks[mark]
        start = mark * BLOCK
        block = self.read(start, min(self.bytes, start + BLOCK))
        # Bisection: find the smallest `high` with `wanted` line ends before it.
        low, high = 0, len(block)
        while low + 1 < high:
            middle = (low + high) // 2
            seen = block.count(b"\n", low, middle)
            if seen >= wanted:
                high = middle
            else:
                low, wanted = middle, wanted - seen
        return int(start + high)
