"""Reads what a cell gives as a place of the body: offsets, hits, chunks, texts, sections, documents."""

from __future__ import annotations

import operator
from collections.abc import Mapping
from difflib import get_close_matches
from typing import Any

from ...text.body import Body, Document, Span
from .records import Hit, Values

__all__ = ["is_span", "place_of", "resolve_range", "stretch_of", "whole_number"]

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


def place_of(body: Body, where: Any) -> Span:
    """Return the span of a hit, chunk, text, section, span or offset, within the body."""
    if isinstance(where, Mapping) and "start" in where:
        where = Span(where["start"], where.get("end", where["start"]))
    where = getattr(where, "span", where)
    if isinstance(where, (tuple, list)) and len(where) == 2:
        start, end = whole_number("start", where[0]), whole_number("end", where[1])
    elif isinstance(where, str) or where is None:
        raise TypeError(
            "where must be a hit, a chunk, (start, end) or an offset: search() or quote() finds the place "
            "of a text"
        )
    else:
        start = end = whole_number("where", where)
    start, _ = resolve_range(start, None, body.chars)
    return Span(start, max(start, min(end, body.chars)))


def stretch_of(body: Body, within: Any, name: str = "within") -> Span:
    """Return the part of the body that `within` names: a span, a hit (its lines with their context), a chunk,
    a text of the body, a section, a record of documents(), or the name of a document.

    Raises TypeError for anything else, and ValueError for an empty part or an unknown name.
    """
    span = getattr(within, "span", None)
    if isinstance(within, Hit):
        stretch = within.passage()
    elif isinstance(span, tuple):
        stretch = Span(*span)
    elif isinstance(within, Mapping) and "start" in within and "end" in within:
        stretch = _resolved(body, within["start"], within["end"])
    elif is_span(within):
        stretch = _resolved(body, *within)
    elif isinstance(within, str):
        document = _document_named(body, within)
        stretch = Span(document.start, document.end)
    else:
        raise TypeError(
            f"{name} is one place: (start, end), a hit, a chunk, a section, a document or its name, not "
            f"{type(within).__name__}. For several places, call it for each"
        )
    stretch = Span(min(stretch.start, body.chars), min(stretch.end, body.chars))
    if stretch.end <= stretch.start:
        raise ValueError(f"{name} ({stretch.start}, {stretch.end}) holds no character of this input")
    return stretch


def _resolved(body: Body, start: Any, end: Any) -> Span:
    return Span(*resolve_range(whole_number("start", start), whole_number("end", end), body.chars))


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
