"""Finds the place of a quote for a cell, as the driver does for evidence, and says what stands nearest."""

from __future__ import annotations

from ..text.body import Body, Span
from ..text.quotes import MAX_QUOTE_CHARS, Budget, Nearest, Wanted, find_nearest, find_quotes

__all__ = ["locate", "nearest_line"]

_SECONDS = 2.0
"""Seconds of computing of a search, and of the look for the nearest place."""
_BYTES_PER_SECOND = 50_000_000
"""Bytes of text for which a search gets another second."""
_SHOWN = 300
_SHOWN_QUOTE = 80


def locate(body: Body, quote: str, *, first: int = 0, explain: bool = True) -> Span:
    """Return the first place in `body` that reads as `quote`, counted from `first`.

    Raises ValueError if there is none (to `explain` it names the nearest place), and TimeoutError if the
    search takes more than two seconds of computing, and one more for 50 MB.
    """
    budget = Budget(_SECONDS + body.bytes / _BYTES_PER_SECOND)
    found = find_quotes([Wanted(quote)], body.read, body.bytes, budget=budget)[0]
    shown = f"{quote[:_SHOWN_QUOTE]!r}{'…' if len(quote) > _SHOWN_QUOTE else ''}"
    match found.status:
        case "found":
            return Span(first + body.char_of(found.start), first + body.char_of(found.end))
        case "too_long":
            raise ValueError(
                f"the quote has {len(quote):,} characters, quote() takes up to {MAX_QUOTE_CHARS:,}: "
                "give its first sentence, or offsets"
            )
        case "unsearched":
            raise TimeoutError(
                f"{shown} was not looked up in time: give within=, or a longer part of the quote"
            )
    if not quote.strip():
        raise ValueError("the quote is empty")
    nearest = f" {nearest_line(body, quote, first=first)}" if explain else ""
    raise ValueError(f"{shown} does not stand in the text as given.{nearest}")


def nearest_line(body: Body, quote: str, *, first: int = 0) -> str:
    """Return one line about the place of `body` that is most like a quote, counted from `first`."""
    quote = quote[:MAX_QUOTE_CHARS].encode("utf-8", "ignore").decode()  # without halves of characters
    found = find_nearest(quote, body.read, body.bytes, budget=Budget(_SECONDS))
    if found is None:
        return "No place is like it: look for its rare words with search() or rank()."
    start, end = body.char_of(found.start), body.char_of(found.end)
    document = body.document_at(start)
    text = body.text(start, min(end, start + _SHOWN))
    return (
        f"Nearest: ({first + start}, {first + end}), {found.found} of {found.words} words, in "
        f"{document.name if document else 'the text'}: {text!r}{'…' if end - start > _SHOWN else ''}"
        f"{_difference(found)}"
    )


def _difference(found: Nearest) -> str:
    if not found.differences:
        return " (it differs in case or punctuation)"
    parts = []
    for ours, theirs in found.differences:
        if ours and theirs:
            parts.append(f"{theirs[:_SHOWN_QUOTE]!r} stands for {ours[:_SHOWN_QUOTE]!r}")
        elif ours:
            parts.append(f"{ours[:_SHOWN_QUOTE]!r} is not there")
        else:
            parts.append(f"{theirs[:_SHOWN_QUOTE]!r} is there too")
    return f" ({'; '.join(parts)})"
