"""Finds what a place belongs to: its message, its heading's section or its page, otherwise its document."""

from __future__ import annotations

import re

from ...text.body import Body, Document, Span

__all__ = ["section_of"]

_WINDOW = 64 * 1024
_HEADING_CHARS = 400
"""Characters that a window reads beyond its end, so that a heading there is whole."""
_HEADING = re.compile(r"(?:^|\n)(?P<line>(?P<mark>#{1,6})[ \t]+\S[^\n]*)")


def section_of(body: Body, char: int) -> Span:
    """Return the span of the section of a place. Raises ValueError if the body is empty."""
    char = min(char, body.chars - 1)
    document, place = body.document_at(char), body.place(char)
    if document is None or place is None:
        raise ValueError("the input is empty: it has no sections")
    marks = body.marks
    row = marks.message(char, document.start)
    if row is not None:
        start, end, _ = marks.messages.row(row)
        return Span(start, end)
    if place.heading_path:
        heading = marks.path(char, document.start)[-1]
        return Span(marks.headings[heading], _heading_end(body, document, heading))
    if document.kind in ("markdown", "text"):
        found = _above(body, document, char)
        if found is not None:
            return Span(found[0], _below(body, document, *found))
    if place.page is not None:
        page = marks.pages.last(char, document.start)
        assert page is not None
        after = marks.pages[page + 1] if page + 1 < len(marks.pages) else document.end
        return Span(marks.pages[page], min(after, document.end))
    return Span(document.start, document.end)


def _heading_end(body: Body, document: Document, row: int) -> int:
    """Return where the next heading of the same or a higher level begins."""
    headings, level = body.marks.headings, body.marks.level(row)
    for number in range(row + 1, len(headings)):
        if headings[number] >= document.end:
            break
        if body.marks.level(number) <= level:
            return int(headings[number])
    return document.end


def _above(body: Body, document: Document, char: int) -> tuple[int, int] | None:
    """Return start and level of the last heading of Markdown at or above `char` in the document."""
    end = min(document.end, body.line_start(body.line_of(char)) + _HEADING_CHARS)
    while end > document.start:
        start = max(document.start, end - _WINDOW)
        for match in reversed(list(_HEADING.finditer(body.text(start, end)))):
            place = start + match.start("line")
            if place <= char and _begins_line(body, place):
                return place, len(match["mark"])
        end = start
    return None


def _below(body: Body, document: Document, heading: int, level: int) -> int:
    """Return where the next heading of this or a higher level begins, or the document's end."""
    start = heading + 1
    while start < document.end:
        end = min(document.end, start + _WINDOW)
        # A heading that is cut here is found in the next window, which begins a little before.
        for match in _HEADING.finditer(body.text(start, min(document.end, end + _HEADING_CHARS))):
            place = start + match.start("line")
            if place > end:
                break
            if len(match["mark"]) <= level and _begins_line(body, place):
                return place
        start = end
    return document.end


def _begins_line(body: Body, char: int) -> bool:
    return char == 0 or body.text(char - 1, char) == "\n"
