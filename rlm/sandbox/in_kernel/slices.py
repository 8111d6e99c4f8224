"""Reads what a cell gives as a slice or as evidence: spans of the body, texts, or nothing at all."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from ..text.body import Span
from .children import ChildResult
from .pieces import check_slice
from .places import is_numbered_page, is_span, span_of
from .records import Hit
from .tables import SqlRow, place_of_row, places_of_row

__all__ = ["LEFT_OUT", "EmptySlice", "Slice", "looked_places", "pieces_of", "read_slice"]


class _LeftOut:
    """Default of an argument that was left out. None is a value: a search that found nothing returns it."""

    def __repr__(self) -> str:
        return "..."


LEFT_OUT: Any = _LeftOut()


class EmptySlice(Exception):
    """A slice that holds nothing. Nothing is sent for it: the answer would come from no text."""


@dataclass(frozen=True, slots=True)
class Slice:
    """A slice as it crosses the channel: spans as [start, end] within the body, texts as str, in order.

    grounded: whether any piece is not itself the answer of a child that read no text.
    """

    pieces: list[Any]
    grounded: bool = True

    @property
    def hull(self) -> Span | None:
        """Return the smallest span that holds all spans, or None if all pieces are texts."""
        spans = [piece for piece in self.pieces if not isinstance(piece, str)]
        if not spans:
            return None
        return Span(min(start for start, _ in spans), max(end for _, end in spans))


def read_slice(given: Any, resolve: Callable[[int, int], Span]) -> Slice:
    """Return the slice that `given` stands for. A child's answer counts as text.

    `resolve` clamps offsets to the body. Empty texts, like the answers of failed children, are left out.
    Raises EmptySlice if nothing is left or a span is empty, SliceTooLarge for too many pieces, and TypeError
    for anything else than a slice.
    """
    if given is None:
        raise EmptySlice(_EMPTY.format(why="it is None"))
    pieces: list[Any] = []
    for piece in pieces_of(given, answers_are_text=True):
        if isinstance(piece, str):
            if piece.strip():
                pieces.append(piece)
            continue
        span = resolve(*piece)
        if span.end <= span.start:
            raise EmptySlice(_EMPTY.format(why=f"the span ({piece[0]}, {piece[1]}) is empty in this input"))
        pieces.append(list(span))
    if not pieces:
        is_text = isinstance(given, str)
        raise EmptySlice(_EMPTY.format(why="a text without words" if is_text else "a list without items"))
    check_slice(pieces)
    return Slice(pieces, _is_grounded(given))


def looked_places(given: Any) -> tuple[list[Any], bool]:
    """Return the places of a `look`, and whether only one was given. (document, page) is one place, too.
    Raises TypeError or ValueError if there is none."""
    if given is None:
        raise ValueError("pages is None. Nothing was sent. Give a page: documents()[0].page(1)")
    is_one = is_span(given) or (isinstance(given, tuple) and is_numbered_page(given))
    if is_one or not isinstance(given, (list, tuple)):
        return [given], True
    if not given:
        raise ValueError("pages is an empty list. Nothing was sent. Give at least one page")
    return list(given), False


_EMPTY = "the slice is empty: {why}"


def _is_grounded(given: Any) -> bool:
    if isinstance(given, ChildResult):
        return given.grounded
    if isinstance(given, (list, tuple)) and not is_span(given):
        return any(map(_is_grounded, given))
    return True


def pieces_of(slice: Any, *, answers_are_text: bool = False) -> list[Any]:
    """Return the pieces of a slice or of evidence: spans as [start, end], texts as str, in order.

    A child's answer stands for the span that it read, or for its text if `answers_are_text`. So does a row of
    a query that was computed over tables.
    """
    if answers_are_text and isinstance(slice, ChildResult):
        return [str(slice)]
    if isinstance(slice, SqlRow):
        place = place_of_row(slice)
        if place is None and answers_are_text:
            return [repr(slice)]
        return [list(one) for one in places_of_row(slice)]
    span = span_of(slice, Hit.passage)
    if span is not None:
        return [list(span)]
    if isinstance(slice, str):
        return [str(slice)]
    if not isinstance(slice, Mapping) and hasattr(slice, "__iter__"):
        return [piece for one in slice for piece in pieces_of(one, answers_are_text=answers_are_text)]
    raise TypeError(
        "a slice or a piece of evidence must be a chunk, a hit, a pack, a peek, (start, end), a str, or a "
        f"list of these, not {type(slice).__name__}"
    )
