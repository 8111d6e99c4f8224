"""Finds the pages of a body: the span of a page, and the pages that a span touches."""

from __future__ import annotations

from bisect import bisect_left, bisect_right
from collections.abc import Iterator
from typing import NamedTuple

from .body import Body, Document, Span

__all__ = ["PageSpan", "page_span", "pages_within"]


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


def _page(body: Body, document: Document, first: int, number: int) -> PageSpan:
    pages, row = body.marks.pages, first + number - 1
    after = pages[row + 1] if row + 1 < len(pages) else document.end
    return PageSpan(document, number, Span(pages[row], min(after, document.end)))
