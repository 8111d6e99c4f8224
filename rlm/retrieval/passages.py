"""The body cut into passages: what is ranked. They tile it, and never cross a document or a message."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from rlm.sandbox.in_kernel.body.body import Body, Span

__all__ = ["LEAST", "MOST", "Passages", "cut"]

LEAST, MOST = 500, 1_200
"""Characters of a passage: the least at which a border is looked for, and the most there are."""
_HEADING_LEAST = 60
"""A heading begins a passage of its own unless less than this, another heading mostly, stands before it."""
_WINDOW = 1 << 19
_ENDS = (". ", "! ", "? ", "。", "！", "？", ".\t", "; ", ", ", " ")


def cut(body: Body) -> Iterator[tuple[int, list[str]]]:
    """Batches (first character, texts of the passages in order). They follow on one another without gaps,
    so that a passage's place is known from the lengths before it. Memory stays below a few megabytes."""
    for start, stop, ends in _windows(body):
        window = body.text(start, stop)
        texts: list[str] = []
        at = 0
        for end in ends:
            texts += _cut(window[at : end - start])
            at = end - start
        yield start, texts + _cut(window[at:])


def _windows(body: Body) -> Iterator[tuple[int, int, list[int]]]:
    """Stretches (start, end, where a message begins inside)."""
    messages = body.marks.messages
    for document in body.documents:
        start = document.start
        while start < document.end:
            stop = min(document.end, start + _WINDOW)
            ends = messages[bisect_right(messages, start) : bisect_left(messages, stop)]
            if stop < document.end:
                # The next window begins with a message, or at a line end if there are none or long ones.
                if ends and stop - ends[-1] < _WINDOW // 2:
                    stop = ends.pop()
                else:
                    stop = _line_end(body, stop)
                    ends = [end for end in ends if end < stop]
            yield start, stop, ends
            start = stop


def _line_end(body: Body, stop: int) -> int:
    """The last line end, else blank, shortly before `stop`, else `stop`."""
    text = body.text(stop - MOST, stop)
    at = text.rfind("\n")
    if at < 0:
        at = text.rfind(" ")
    return stop if at < 0 else stop - len(text) + at + 1


def _cut(text: str) -> list[str]:
    """The passages of `text`, all of it."""
    passages: list[str] = []
    at = 0
    size = len(text)
    while at < size:
        if size - at <= MOST:
            end = size
            heading = text.find("\n#", at + _HEADING_LEAST, end)
            if heading >= 0:
                end = heading + 1
        else:
            end = _border(text, at, at + MOST)
        passages.append(text[at:end])
        at = end
    return passages


def _border(text: str, start: int, limit: int) -> int:
    """Where the passage from `start` ends: before a heading, else after a blank line, a line, a sentence,
    a word, whichever comes first in this list between the least and the most."""
    heading = text.find("\n#", start + _HEADING_LEAST, limit)
    if heading >= 0:
        return heading + 1
    least = start + LEAST
    at = text.rfind("\n\n", least, limit)
    if at >= 0:
        return at + 2
    at = text.rfind("\n", least, limit)
    if at >= 0:
        return at + 1
    for mark in _ENDS:
        at = text.rfind(mark, least, limit)
        if at >= 0:
            return at + len(mark)
    return limit


class Passages:
    """Where every passage begins. Numbers are from 0; each ends where the next begins."""

    def __init__(self, starts: array[int], chars: int) -> None:
        self._starts = starts
        self._chars = chars

    def __len__(self) -> int:
        return len(self._starts)

    def span(self, number: int) -> Span:
        """The characters of passage `number`."""
        following = number + 1
        end = self._starts[following] if following < len(self._starts) else self._chars
        return Span(self._starts[number], end)
