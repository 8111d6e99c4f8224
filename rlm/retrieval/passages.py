"""Cut a body into passages for ranking. They tile it, and never cross a document or a message."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from rlm.sandbox.text.body import Body, Span

__all__ = ["MAX_CHARS", "MIN_CHARS", "Passages", "cut", "windows"]

MIN_CHARS, MAX_CHARS = 500, 1_200
"""Characters of a passage: a border is searched for from the first on; the second is the limit."""
_MIN_BEFORE_HEADING = 60
"""A heading begins a passage of its own, unless fewer characters precede it. Those are mostly another
heading."""
_WINDOW = 1 << 19
_ENDS = (". ", "! ", "? ", "。", "！", "？", ".\t", "; ", ", ", " ")


def cut(body: Body) -> Iterator[tuple[int, list[str]]]:
    """Yield batches: the offset of the first passage, and the texts of all in order. Batches have no gaps, so
    the lengths of earlier passages give the place of each. Memory stays below a few megabytes."""
    for start, stop, ends in windows(body):
        window = body.text(start, stop)
        texts: list[str] = []
        at = 0
        for end in ends:
            texts += _split(window[at : end - start])
            at = end - start
        yield start, texts + _split(window[at:])


def windows(body: Body) -> Iterator[tuple[int, int, list[int]]]:
    """Yield windows of the body, none across documents: start, end, and the starts of messages within."""
    messages = body.marks.messages
    for document in body.documents:
        start = document.start
        while start < document.end:
            stop = min(document.end, start + _WINDOW)
            ends = messages[bisect_right(messages, start) : bisect_left(messages, stop)]
            if stop < document.end:
                # The next window begins with a message, or at a line end if there are no messages or only
                # long ones.
                if ends and stop - ends[-1] < _WINDOW // 2:
                    stop = ends.pop()
                else:
                    stop = _find_line_end(body, stop)
                    ends = [end for end in ends if end < stop]
            yield start, stop, ends
            start = stop


def _find_line_end(body: Body, stop: int) -> int:
    """Return the place after the last line end before `stop`, else after the last blank, else `stop`."""
    text = body.text(stop - MAX_CHARS, stop)
    at = text.rfind("\n")
    if at < 0:
        at = text.rfind(" ")
    return stop if at < 0 else stop - len(text) + at + 1


def _split(text: str) -> list[str]:
    """Split all of `text` into passages."""
    passages: list[str] = []
    at = 0
    size = len(text)
    while at < size:
        if size - at <= MAX_CHARS:
            end = size
            heading = text.find("\n#", at + _MIN_BEFORE_HEADING, end)
            if heading >= 0:
                end = heading + 1
        else:
            end = _find_border(text, at, at + MAX_CHARS)
        passages.append(text[at:end])
        at = end
    return passages


def _find_border(text: str, start: int, limit: int) -> int:
    """Return the end of the passage from `start`: before a heading, else after a blank line, a line, a
    sentence or a word. The first kind in this order that occurs within the size limits wins."""
    heading = text.find("\n#", start + _MIN_BEFORE_HEADING, limit)
    if heading >= 0:
        return heading + 1
    minimum = start + MIN_CHARS
    at = text.rfind("\n\n", minimum, limit)
    if at >= 0:
        return at + 2
    at = text.rfind("\n", minimum, limit)
    if at >= 0:
        return at + 1
    for mark in _ENDS:
        at = text.rfind(mark, minimum, limit)
        if at >= 0:
            return at + len(mark)
    return limit


class Passages:
    """The starts of all passages, numbered from 0. Each passage ends where the next begins."""

    def __init__(self, starts: array[int], chars: int) -> None:
        self._starts = starts
        self._chars = chars

    def __len__(self) -> int:
        return len(self._starts)

    def span(self, number: int) -> Span:
        """Return the span of passage `number`."""
        following = number + 1
        end = self._starts[following] if following < len(self._starts) else self._chars
        return Span(self._starts[number], end)

    def between(self, start: int, end: int) -> range:
        """Return the numbers of the passages that are at least partly between two characters."""
        return range(max(0, bisect_right(self._starts, start) - 1), bisect_left(self._starts, end))
