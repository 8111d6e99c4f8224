"""Checks slices and evidence in the kernel, so that a traceback points at the line that gave them.

The driver checks them again: what arrives there may not come from here.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from ..text.body import Span
from .children import SliceTooLarge

__all__ = [
    "MAX_EVIDENCE",
    "MAX_OFFSET",
    "MAX_PIECES",
    "check_evidence",
    "check_slice",
    "too_many_pieces",
    "too_much_evidence",
]

MAX_PIECES = 10_000
"""Spans and texts of one slice."""
MAX_EVIDENCE = 1_000
"""Spans and quotes of one answer."""
MAX_OFFSET = 2**53


def too_many_pieces(count: int) -> str:
    """Return the reason why a slice of that many pieces is refused, with the remedy."""
    return (
        f"the slice has {count:,} pieces, and a child takes at most {MAX_PIECES:,}. Give the 1,000 that "
        "matter, for example search(pattern, max_hits=1000), or give sub_query_batch several smaller lists"
    )


def too_much_evidence(count: int) -> str:
    """Return the reason why that many pieces of evidence are refused, with the remedy."""
    return (
        f"evidence holds {count:,} pieces, and an answer takes at most {MAX_EVIDENCE:,}. Give those that "
        "prove it, for example hits[:100]"
    )


def check_slice(pieces: Sequence[Any]) -> None:
    """Raise SliceTooLarge if a slice has more pieces than a child takes."""
    if len(pieces) > MAX_PIECES:
        raise SliceTooLarge(too_many_pieces(len(pieces)))


def check_evidence(pieces: Sequence[Any], resolve: Callable[[int, int], Span]) -> list[Any]:
    """Return evidence as it crosses the channel: spans as [start, end], quotes as str, seen pages as dict.

    Negative offsets count from the end, as `resolve` does. A span may end beyond the input: the driver marks
    it as unverified. Raises ValueError for a span that holds nothing, and for too many pieces.
    """
    if len(pieces) > MAX_EVIDENCE:
        raise ValueError(too_much_evidence(len(pieces)))
    return [
        piece if isinstance(piece, (str, dict)) else _span(piece[0], piece[1], resolve) for piece in pieces
    ]


def _span(start: int, end: int, resolve: Callable[[int, int], Span]) -> list[int]:
    first = resolve(start, start).start if start < 0 else start
    last = resolve(0, end).end if end < 0 else end
    if last <= first:
        raise ValueError(
            f"({start}, {end}) is no span: it holds no character. Give (start, end) with start before end, "
            "for example (hit.start, hit.end)"
        )
    return [min(first, MAX_OFFSET - 1), min(last, MAX_OFFSET)]
