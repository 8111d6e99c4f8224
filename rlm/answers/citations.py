"""Verifies the evidence and the quotes of an answer against the body."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm.answers.quote_search import locate_all
from rlm.citation_markers import marker, marks_in
from rlm.results import Citation
from rlm.sandbox.in_kernel.body.body import Body
from rlm.sandbox.types import Span

__all__ = ["cite", "quotes_in"]

_MIN_ANSWER_QUOTE = 20
_MAX_ANSWER_QUOTES = 50
_SHOWN = 600
_SENTENCE_END = " \t\n.,;:!?…"
_PARAGRAPH = r"(?:[^{marks}\n]|\n(?![ \t]*\n))*"
_QUOTED = re.compile(
    "|".join(
        f"{opens}({_PARAGRAPH.format(marks=opens + closes)}){closes}"
        for opens, closes in ('""', "“”", "«»", "「」", "『』")
    )
)


def quotes_in(answer: str) -> list[str]:
    """Return the passages that `answer` puts in double quotes (straight, curly, angular or in corners).

    They come in order, each once, 50 at most. A passage has at least 20 characters, where an East Asian one
    counts for two. It holds no blank line, and more than one word: a single word is a path, a flag or a name.
    """
    found = (match[match.lastindex or 0].strip() for match in _QUOTED.finditer(answer))
    return list(dict.fromkeys(passage for passage in found if _is_passage(passage)))[:_MAX_ANSWER_QUOTES]


def cite(evidence: Sequence[Span | str], answer: str, body: Body) -> tuple[Citation, ...]:
    """Cite each piece of evidence, in order, then each quote of `answer` that no piece holds. The markers are
    `[¹]`, `[²]`, … in that order.

    Equal pieces are cited once, unless the answer points at its evidence by number: then the numbers are
    kept. A quote is cut to 600 characters; `start` and `end` span the whole of it. A span outside the body
    and a quote that is not found are unverified, the quote without a place. A full stop or comma inside the
    quotation marks of an answer need not be in the body.
    """
    pieces = list(evidence) if any(marks_in(answer)) else list(dict.fromkeys(evidence))
    spans = [piece for piece in pieces if not isinstance(piece, str)]
    quotes = [piece for piece in pieces if isinstance(piece, str)]
    places = dict(zip(quotes, locate_all(quotes, body, spans), strict=True))
    cited: list[tuple[str, Span | None, bool]] = []
    for piece in pieces:
        if isinstance(piece, str):
            cited.append((piece, places[piece], places[piece] is not None))
        elif 0 <= piece.start < piece.end <= body.chars:
            cited.append((body.text(piece.start, min(piece.end, piece.start + _SHOWN)), piece, True))
        else:
            cited.append(("", piece, False))
    said = list(dict.fromkeys(quote.rstrip(_SENTENCE_END) for quote in quotes_in(answer)))
    held = [place for _, place, verified in cited if place is not None and verified]
    for quote, span in zip(said, locate_all(said, body, held), strict=True):
        if span is None or not any(place.start <= span.start and span.end <= place.end for place in held):
            cited.append((quote, span, span is not None))
    return tuple(_citation(number, body, *entry) for number, entry in enumerate(cited, 1))


def _citation(number: int, body: Body, quote: str, place: Span | None, verified: bool) -> Citation:
    found = body.place(place.start) if place is not None and verified else None
    holder = body.document_at(place.start) if place is not None and found is not None else None
    return Citation(
        marker=marker(number),
        quote=quote[:_SHOWN],
        start=None if place is None else place.start,
        end=None if place is None else place.end,
        document=None if found is None else found.document,
        page=None if found is None else found.page,
        line=None if found is None or holder is None else found.line - body.line_of(holder.start),
        verified=verified,
        message=None if found is None else found.message,
        author=(found.author or found.role or None) if found is not None else None,
        time=(found.time or None) if found is not None else None,
        heading_path=() if found is None else found.heading_path,
    )


def _is_passage(text: str) -> bool:
    width = _width(text)
    # East Asian text has no blanks between its words.
    return width >= _MIN_ANSWER_QUOTE and (width > len(text) or len(text.split()) > 1)


def _width(text: str) -> int:
    return sum(2 if "\u2e80" <= char <= "\U0003ffff" else 1 for char in text)
