"""Reads what a cell gives as a place of the body: offsets, hits, chunks, texts, documents, pages."""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping
from difflib import get_close_matches
from itertools import islice
from typing import Any

from ..text.body import Body, Document, Span
from ..text.parts import MAX_PAGES, PageSpan, page_span, pages_within
from .records import Hit, Values

__all__ = [
    "is_numbered_page",
    "is_span",
    "page_of",
    "pages_of",
    "place_of",
    "resolve_range",
    "span_of",
    "stretch_of",
    "whole_number",
]

_SHOWN_NAMES = 3
_MOST_COMPARED = 2_000


def whole_number(name: str, value: Any) -> int:
    """Return `value` as an int. Raises TypeError with the remedy."""
    try:
        return operator.index(value)
    except TypeError:
        raise TypeError(
            f"{name} is a whole number, not {type(value).__name__}: use int(...) or // to make it one"
        ) from None


def resolve_range(start: int, end: int | None, size: int) -> tuple[int, int]:
    """Return the range within 0..`size`. Negative values count from the end; a reversed range is empty."""
    first = min(size, start if start >= 0 else max(0, size + start))
    last = size if end is None else min(size, end if end >= 0 else max(0, size + end))
    return first, max(first, last)


def is_span(given: Any) -> bool:
    """Return whether `given` is a pair of offsets: a tuple, or a list as JSON has it. Two values of a
    row are none."""
    return (
        isinstance(given, (tuple, list))
        and len(given) == 2
        and not isinstance(given, Values)
        and all(map(_is_offset, given))
    )


def _is_offset(edge: Any) -> bool:
    # numpy's integers are no int, but they are an index.
    return hasattr(type(edge), "__index__") and not isinstance(edge, bool)


def span_of(given: Any, of_hit: Callable[[Any], Span] | None = None) -> Span | None:
    """Return the span that a result, a record, a span or a pair of offsets stands for, or None.

    `of_hit` says what of a hit is meant, its `passage` or its `proof`; without it, it is the match.
    """
    if of_hit is not None and isinstance(given, Hit):
        return of_hit(given)
    span = given if isinstance(given, Span) else getattr(given, "span", None)
    if isinstance(span, tuple):
        return Span(int(span[0]), int(span[1]))
    if isinstance(given, Mapping) and "start" in given and "end" in given:
        return Span(whole_number("start", given["start"]), whole_number("end", given["end"]))
    return Span(operator.index(given[0]), operator.index(given[1])) if is_span(given) else None


def place_of(body: Body, where: Any) -> Span:
    """Return the span of a hit, chunk, text, section, span or offset, within the body."""
    if isinstance(where, (list, tuple)) and len(where) == 2 and not is_span(where):
        whole_number("start", where[0])
        whole_number("end", where[1])
    span = span_of(where)
    if span is None and (isinstance(where, str) or where is None):
        raise TypeError(
            "where must be a hit, a chunk, (start, end) or an offset: search() or quote() finds the place "
            "of a text"
        )
    start, end = (whole_number("where", where),) * 2 if span is None else span
    start, _ = resolve_range(start, None, body.chars)
    return Span(start, max(start, min(end, body.chars)))


def stretch_of(body: Body, within: Any, name: str = "within") -> Span:
    """Return the part of the body that `within` names: a span, a hit (its lines with their context), a chunk,
    a text of the body, a section, a record of documents(), or the name of a document.

    Raises TypeError for anything else, and ValueError for an empty part or an unknown name.
    """
    span = span_of(within, Hit.passage)
    if span is None and isinstance(within, str):
        document = _document_named(body, within)
        span = Span(document.start, document.end)
    if span is None:
        raise TypeError(
            f"{name} is one place: (start, end), a hit, a chunk, a section, a document or its name, not "
            f"{type(within).__name__}. For several places, call it for each"
        )
    start, end = resolve_range(*span, body.chars)
    if end <= start:
        raise ValueError(f"{name} ({start}, {end}) holds no character of this input")
    return Span(start, end)


def _document_named(body: Body, name: str) -> Document:
    """Return the document of this name. The end of a path is enough if only one document has it."""
    documents = body.documents
    found = [one for one in documents if one.name == name] or [
        one for one in documents if one.name.endswith(f"/{name}") or one.name.casefold() == name.casefold()
    ]
    if len(found) == 1:
        return found[0]
    if found:
        raise ValueError(f"{len(found)} documents are named {name[:80]!r}: give one of documents() instead")
    names = [one.name for one in documents[:_MOST_COMPARED]]
    near = get_close_matches(name[:200], names, n=_SHOWN_NAMES, cutoff=0.4) or names[:_SHOWN_NAMES]
    raise ValueError(
        f"no document is named {name[:80]!r} (there is {', '.join(map(repr, near)) or 'none'}"
        f"{', …' if len(documents) > len(near) else ''}): documents() lists them"
    )


def page_of(body: Body, document: Any, number: Any) -> PageSpan:
    """Return a page (from 1) of a record of documents(), or of the document of a name."""
    found = body.document_at(stretch_of(body, document, "the document").start)
    assert found is not None
    return page_span(body, found, whole_number("the page", number))


def pages_of(body: Body, given: Any) -> list[PageSpan]:
    """Return the pages of one place: at least one, and at most `MAX_PAGES`."""
    if is_numbered_page(given):
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


def is_numbered_page(given: Any) -> bool:
    """Return whether `given` is (document, page)."""
    if not isinstance(given, (tuple, list)) or len(given) != 2 or is_span(given):
        return False
    return isinstance(given[0], (str, Mapping)) and hasattr(type(given[1]), "__index__")
