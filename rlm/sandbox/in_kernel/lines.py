"""Reads the body by lines, in windows, so that a million lines need no more memory than a few."""

from __future__ import annotations

from collections.abc import Iterator

from ..text.body import Body
from .access_log import AccessLog
from .places import Line, Listed

__all__ = ["iterate_lines", "lines_of"]

_WINDOW = 1 << 20


def iterate_lines(body: Body, start: int, end: int) -> Iterator[tuple[int, str]]:
    """Yield (first character, text with line end) of each line between two starts of lines, in bytes."""
    char = body.char_of(start)
    while start < end:
        stop = start + _WINDOW
        if stop < end:
            first, after = body.line_bytes(stop)
            # A line that is longer than the window is read whole.
            stop = first if first > start else after
        block = body.read(start, min(stop, end))
        start += len(block)
        pieces = block.decode().split("\n")
        last = pieces.pop()
        for piece in pieces:
            yield char, piece + "\n"
            char += len(piece) + 1
        if last:
            yield char, last
            char += len(last)


def lines_of(body: Body, log: AccessLog, numbers: range) -> Listed:
    """Return lines of the body, read lazily: each a str with number, start, end and text.

    `number` counts from 0 over the whole body. A line does not include its line end.
    """

    def read(number: int, char: int, line: str) -> Line:
        log.read(char, char + len(line))
        return Line(line[:-1] if line[-1:] == "\n" else line, char, number)

    def item(number: int) -> Line:
        start, end = body.line_start_byte(number), body.line_start_byte(number + 1)
        return read(number, body.char_of(start), body.read(start, end).decode())

    def each(numbers: range) -> Iterator[Line]:
        ends = body.line_start_byte(numbers.start), body.line_start_byte(numbers.stop)
        for number, (char, line) in zip(numbers, iterate_lines(body, *ends), strict=True):
            yield read(number, char, line)

    def about(lines: Listed) -> str:
        return (
            f", from line {lines.numbers[0]:,}: iterate, index or slice "
            "(each is a str with number, start, end, text)"
        )

    return Listed("line", numbers, item, about, each)
