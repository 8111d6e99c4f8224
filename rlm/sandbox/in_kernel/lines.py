"""Reads the body by lines, in windows, so that a million lines need no more memory than a few."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import overload

from ..text.body import Body
from .access_log import AccessLog
from .records import Line

__all__ = ["Lines", "iterate_lines"]

_WINDOW = 1 << 20


def iterate_lines(body: Body, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield (first character, text with line end) of each line between two starts of lines, in bytes."""
    raw = body.raw
    char = body.char_of(start)
    while start < end:
        block = raw[start : min(start + _WINDOW, end)]
        cut = block.rfind(b"\n") + 1
        if not cut and start + len(block) < end:
            # The line is longer than the window.
            block = raw[start : raw.find(b"\n", start, end) + 1 or end]
        elif start + len(block) < end:
            block = block[:cut]
        start += len(block)
        body.passed(len(block))
        pieces = block.decode().split("\n")
        last = pieces.pop()
        for piece in pieces:
            yield char, piece + "\n"
            char += len(piece) + 1
        if last:
            yield char, last
            char += len(last)


class Lines(Sequence[Line]):
    """Lines of the body, read lazily. Each is a str with number, start, end and text.

    `number` counts from 0 over the whole body. A line does not include its line end.
    """

    __slots__ = ("_body", "_first", "_last", "_log")

    def __init__(self, body: Body, log: AccessLog, first: int, last: int) -> None:
        self._body = body
        self._log = log
        self._first = first
        self._last = last

    def __len__(self) -> int:
        return self._last - self._first

    def __iter__(self) -> Iterator[Line]:
        body, log = self._body, self._log
        number = self._first
        for char, line in iterate_lines(
            body, body.line_start_byte(self._first), body.line_start_byte(self._last)
        ):
            log.read(char, char + len(line))
            yield _make_line(number, char, line)
            number += 1

    @overload
    def __getitem__(self, at: int) -> Line: ...
    @overload
    def __getitem__(self, at: slice) -> Lines | list[Line]: ...
    def __getitem__(self, at: int | slice) -> Line | Lines | list[Line]:
        if isinstance(at, slice):
            first, last, step = at.indices(len(self))
            if step == 1:
                return Lines(self._body, self._log, self._first + first, self._first + max(first, last))
            return [self[number] for number in range(first, last, step)]
        place = at + len(self) if at < 0 else at
        if not 0 <= place < len(self):
            raise IndexError(f"there is no line {at}: there are {len(self):,}")
        number = self._first + place
        start, end = self._body.line_start_byte(number), self._body.line_start_byte(number + 1)
        char = self._body.char_of(start)
        line = self._body.raw[start:end].decode()
        self._log.read(char, char + len(line))
        return _make_line(number, char, line)

    def __repr__(self) -> str:
        return (
            f"{len(self):,} lines, from line {self._first:,}: "
            "iterate, index or slice (each is a str with number, start, end, text)"
        )


def _make_line(number: int, char: int, line: str) -> Line:
    return Line(line[:-1] if line[-1:] == "\n" else line, number, char)
