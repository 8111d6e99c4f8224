"""The body cut into passages: what is ranked. They tile it, and never cross a document or a message."""

from __future__ import annotations

from array import array
from bisect import bisect_left, bisect_right
from collections.abc import Iterator

from sandbox.in_kernel.body import Body, Span

__all__ = ["LEAST", "MOST", "Passages", "cut"]

LEAST, MOST = 500, 1_200
"""Characters of a passage: the least at which a border is looked for, and the most there are."""
_HEADING_LEAST = 150
_WINDOW = 1 << 19
_ENDS = (". ", "! ", "? ", "。", "！", "？", ".\t", "; ", ", ", " ")


def cut(body: Body) -> Iterator[tuple[int, list[str]]]:
    """Batches (first character, texts of the passages in order). They follow on one another without gaps,
    so that a passage's place is known from the lengths before it. Memory stays below a few megabytes."""
    for document in body.documents:
        start = document.start
        while start < document.end:
            stop = min(document.end, start + _WINDOW)
            window = body.text(start, stop)
            texts = _cut(window, last=stop == document.end)
            yield start, texts
            start += sum(map(len, texts))


def _cut(text: str, *, last: bool) -> list[str]:
    """The passages of `text`; unless it is the last of its document, its end is left for the next window."""
    passages: list[str] = []
    at = 0
    size = len(text)
    while at < size:
        if size - at <= MOST:
            if not last and passages:
                break
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

    def at(self, char: int) -> int:
        """The number of the passage that holds character `char`."""
        return max(0, bisect_right(self._starts, char) - 1)

    def within(self, start: int, end: int) -> range:
        """The numbers of the passages that begin from `start` to `end`."""
        return range(bisect_left(self._starts, start), bisect_left(self._starts, end))
