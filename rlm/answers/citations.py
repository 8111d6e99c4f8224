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
_MAX_SHOWN_CHARS = 600
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

    Returns at most 50 passages in order, each once. A passage has at least 20 characters, where an East Asian
    character counts as two. It has no blank line and more than one word, because a single word is usually a
    path, a flag or a name.
    """
    found = (match[match.lastindex or 0].strip() for match in _QUOTED.finditer(answer))
    return list(dict.fromkeys(passage for passage in found if _is_passage(passage)))[:_MAX_ANSWER_QUOTES]


def cite(evidence: Sequence[Span | str], answer: str, body: Body) -> tuple[Citation, ...]:
    """Cite each piece of evidence in order, then each quote of `answer` that no piece contains.

    The markers are `[¹]`, `[²]`, … in this order. Equal pieces are cited once. If the answer refers to its
    evidence by number, equal pieces are kept, so that the numbers stay right. A quote is cut to 600
    characters, but `start` and `end` span the full quote. A span outside the body and a quote that is not
    found are unverified; such a quote has no place. Punctuation at the end of a quote in the answer is
    ignored.
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
            cited.append(
                (body.text(piece.start, min(piece.end, piece.start + _MAX_SHOWN_CHARS)), piece, True)
            )
        else:
            cited.append(("", piece, False))
    answer_quotes = list(dict.fromkeys(quote.rstrip(_SENTENCE_END) for quote in quotes_in(answer)))
    evidence_spans = [place for _, place, verified in cited if place is not None and verified]
    for quote, span in zip(answer_quotes, locate_all(answer_quotes, body, evidence_spans), strict=True):
        if span is None or not any(
            place.start <= span.start and span.end <= place.end for place in evidence_spans
        ):
            cited.append((quote, span, span is not None))
    return tuple(_citation(number, body, *entry) for number, entry in enumerate(cited, 1))


def _citation(number: int, body: Body, quote: str, place: Span | None, verified: bool) -> Citation:
    location = body.place(place.start) if place is not None and verified else None
    document = body.document_at(place.start) if place is not None and location is not None else None
    return Citation(
        marker=marker(number),
        quote=quote[:_MAX_SHOWN_CHARS],
        start=None if place is None else place.start,
        end=None if place is None else place.end,
        document=None if location is None else location.document,
        page=None if location is None else location.page,
        line=None if location is None or document is None else location.line - body.line_of(document.start),
        verified=verified,
        message=None if location is None else location.message,
        author=(location.author or location.role or None) if location is not None else None,
        time=(location.time or None) if location is not None else None,
        heading_path=() if location is None else location.heading_path,
    )


def _is_passage(text: str) -> bool:
    width = _width(text)
    # East Asian text has no blanks between its words.
    return width >= _MIN_ANSWER_QUOTE and (width > len(text) or len(text.split()) > 1)


def _width(text: str) -> int:
    return sum(2 if "\u2e80" <= char <= "\U0003ffff" else 1 for char in text)
