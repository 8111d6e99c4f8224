"""Finds the parts of a document as its format counts them: pages, slides, cells, times."""

from __future__ import annotations

import re
from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from .body import Body, Document, Span

__all__ = [
    "MAX_PAGES",
    "PICTURE_KIND",
    "PageSpan",
    "blank_pages",
    "is_blank",
    "page_span",
    "pages_within",
    "part_at",
]

MAX_PAGES = 8
"""Pages that one child sees."""
PICTURE_KIND = "image"
"""The kind of a document that is a picture. Its text only says so."""
_MAX_BLANK = 8
"""Characters of a page that is read, to see whether it holds any text."""


class PageSpan(NamedTuple):
    """A page of a document, counted from 1, and its span of the body."""

    document: Document
    number: int
    span: Span


def page_span(body: Body, document: Document, number: int) -> PageSpan:
    """Return a page of a document. Raises ValueError if it has no such page."""
    if not document.pages:
        raise ValueError(
            f"{document.name!r} has no pages to look at: it is a document of kind {document.kind}"
        )
    if not 1 <= number <= document.pages:
        raise ValueError(f"{document.name!r} has no page {number}: its pages are 1 to {document.pages:,}")
    return _page(body, document, bisect_left(body.marks.pages, document.start), number)


def pages_within(body: Body, span: Span) -> Iterator[PageSpan]:
    """Yield the pages that a span touches, in order."""
    pages = body.marks.pages
    row = max(0, bisect_right(pages, span.start) - 1)
    while row < len(pages) and pages[row] < span.end:
        document = body.document_at(pages[row])
        if document is not None:
            first = bisect_left(pages, document.start)
            page = _page(body, document, first, row - first + 1)
            if page.span.end > span.start:
                yield page
        row += 1


def is_blank(body: Body, page: PageSpan) -> bool:
    """Return whether a page holds no text of its own."""
    start, end = page.span
    return page.document.kind == PICTURE_KIND or (
        end - start <= _MAX_BLANK and not body.text(start, end).strip()
    )


def blank_pages(body: Body) -> int:
    """Count the pages that hold no text of their own."""
    return sum(is_blank(body, page) for page in pages_within(body, Span(0, body.chars)))


def _page(body: Body, document: Document, first: int, number: int) -> PageSpan:
    pages, row = body.marks.pages, first + number - 1
    after = pages[row + 1] if row + 1 < len(pages) else document.end
    return PageSpan(document, number, Span(pages[row], min(after, document.end)))


_NUMBERED = {"pptx": "Slide", "odp": "Slide", "notebook": "Cell"}
"""The word before the number in the top headings of a kind of document. Its reader writes these headings."""
_TIMED = "subtitles"
_NUMBER = re.compile(r"[A-Z][a-z]+ \d{1,9}\b")
_TIME = re.compile(r"^\[(\d{2,3}:\d\d:\d\d)\] ", re.MULTILINE)
_LONGEST_LINE = 20_000


def part_at(body: Body, char: int) -> str:
    """Return `slide 3`, `cell 7` or `00:12:05`; "" if the document has no such parts, or in front of them."""
    document = body.document_at(char)
    if document is None:
        return ""
    if document.kind == _TIMED:
        before = max(document.start, char - _LONGEST_LINE)
        start = before + body.text(before, char).rfind("\n") + 1
        # What stands before the first cue, or between two, gets the time of the next one.
        time = _TIME.search(body.text(start, min(document.end, start + _LONGEST_LINE)))
        return time[1] if time else ""
    word = _NUMBERED.get(document.kind)
    path = body.heading_path(char) if word else ()
    number = _NUMBER.match(path[0]) if path else None
    return number[0].lower() if number and number[0].startswith(f"{word} ") else ""
