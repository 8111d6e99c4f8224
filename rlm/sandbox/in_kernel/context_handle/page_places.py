"""Reads what a cell gives as pages to look at."""

from __future__ import annotations

from collections.abc import Mapping
from itertools import islice
from typing import Any

from ...text.body import Body, Document, Span
from ...text.page_spans import MAX_PAGES, PageSpan, page_span, pages_within
from .places import is_span, place_of, stretch_of, whole_number

__all__ = ["page_of", "pages_of"]


def page_of(body: Body, document: Any, number: Any) -> PageSpan:
    """Return a page (from 1) of a record of documents(), or of the document of a name."""
    return page_span(body, _document(body, document), whole_number("the page", number))


def pages_of(body: Body, given: Any) -> list[PageSpan]:
    """Return the pages of one place: at least one, and at most `MAX_PAGES`."""
    if _is_numbered(given):
        return [page_of(body, *given)]
    is_offset = not isinstance(given, (str, Mapping)) and hasattr(type(given), "__index__")
    span = place_of(body, given) if is_offset else stretch_of(body, given, "pages")
    pages = list(islice(pages_within(body, Span(span.start, max(span.end, span.start + 1))), MAX_PAGES + 1))
    if not pages:
        document = body.document_at(span.start)
        named = f"{document.name!r} (kind {document.kind})" if document else "this input"
        raise ValueError(
            f"{named} has no pages to look at: only PDFs and pictures have. Read its text instead"
        )
    if len(pages) > MAX_PAGES:
        raise ValueError(
            f"a child sees at most {MAX_PAGES} pages. Give a list of pages, which gives one child each: "
            f"look([d.page(n) for n in range(1, d.pages + 1)], prompt), d being one of documents()"
        )
    return pages


def _document(body: Body, given: Any) -> Document:
    span = stretch_of(body, given, "the document")
    document = body.document_at(span.start)
    assert document is not None
    return document


def _is_numbered(given: Any) -> bool:
    """Return whether `given` is (document, page)."""
    if not isinstance(given, (tuple, list)) or len(given) != 2 or is_span(given):
        return False
    return isinstance(given[0], (str, Mapping)) and hasattr(type(given[1]), "__index__")
