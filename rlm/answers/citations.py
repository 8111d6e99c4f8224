"""Verifies the evidence and the quotes of an answer against the body."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

from rlm.answers.quote_places import Fault, Wanted, find_places
from rlm.citation_markers import marker, marks_in
from rlm.documents.formats.cell_places import cell_place
from rlm.results import Citation
from rlm.retrieval.words import FUNCTION_WORDS
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.parts import PICTURE_KIND, part_at
from rlm.sandbox.types import ComputedFrom, Evidence, SeenPages, Span

__all__ = ["Cited", "cite", "cite_spans", "quotes_in"]

_MIN_ANSWER_QUOTE = 20
_MAX_ANSWER_QUOTES = 50
_MAX_SHOWN_CHARS = 600
_MIN_WIDTH = 3
"""Letters and digits of a quote that can prove something. An East Asian character counts as two."""
_MAX_PLACES = 10
"""Places of a single word that can prove something."""
_SENTENCE_END = " \t\n.,;:!?…"
_WORD = re.compile(r"\w+")
# Possessive, because a backtrack would keep a state for each character.
_PARAGRAPH = r"[^{marks}\n]*+(?:(?!\n[ \t]*\n)\n[^{marks}\n]*+)*+"
_QUOTED = re.compile(
    "|".join(
        f"{opens}({_PARAGRAPH.format(marks=opens + closes)}){closes}"
        for opens, closes in ('""', "“”", "«»", "「」", "『』")
    )
)


@dataclass(frozen=True, slots=True)
class Cited:
    """The citations of an answer. `faults` say of some, by their place, why their quote was not found."""

    citations: tuple[Citation, ...]
    faults: Mapping[int, Fault] = field(default_factory=dict)

    def unverified(self, fault: Fault = "missing") -> list[str]:
        """Return what is unverified for this reason, as text. What a child saw on a page is not."""
        return [
            one.quote or f"({one.start}, {one.end})"
            for place, one in enumerate(self.citations)
            if not (one.verified or one.seen) and self.faults.get(place, "missing") == fault
        ]


def quotes_in(answer: str) -> list[str]:
    """Return the passages that `answer` puts in double quotes (straight, curly, angular or in corners).

    Returns at most 50 passages in order, each once. A passage has at least 20 characters, where an East Asian
    character counts as two. It has no blank line and more than one word, because a single word is usually a
    path, a flag or a name.
    """
    passages: dict[str, None] = {}
    for match in _QUOTED.finditer(answer):
        passage = match[match.lastindex or 0].strip()
        if _is_passage(passage):
            passages[passage] = None
            if len(passages) == _MAX_ANSWER_QUOTES:
                break
    return list(passages)


def cite_spans(spans: Sequence[Span], body: Body) -> tuple[Citation, ...]:
    """Cite each span in order, equal ones too. A span outside the body is unverified."""
    return _numbered(_citation(body, _text_at(span, body), span) for span in spans)


def _numbered(citations: Iterable[Citation]) -> tuple[Citation, ...]:
    return tuple(replace(one, marker=marker(number)) for number, one in enumerate(citations, 1))


async def cite(
    evidence: Sequence[Evidence],
    answer: str,
    body: Body,
    *,
    was_seen: Callable[[Span], bool] = lambda _: False,
    read_on: Callable[[str], Span | None] = lambda _: None,
) -> Cited:
    """Cite each piece of evidence in order, then each quote of `answer` that no piece contains.

    The markers are `[¹]`, `[²]`, … in this order. Equal pieces are cited once. If the answer refers to its
    evidence by number, equal pieces are kept, so that the numbers stay right. A quote is cut to 600
    characters, but `start` and `end` span the full quote. A span outside the body and a quote that is not
    found, or proves nothing, are unverified; such a quote has no place. Punctuation at the end of a quote in
    the answer is ignored. Seen pages, and a span of pages without text, are never verified: they are cited as
    seen if `was_seen` says that a child saw them. So is a quote that the text does not hold, if `read_on`
    returns the span of a page on which a child read it. A computed value is cited by its first row.
    """
    pieces = list(evidence) if any(marks_in(answer)) else list(dict.fromkeys(evidence))
    spans = [piece for piece in pieces if isinstance(piece, Span)]
    places = await _look_up([piece for piece in pieces if isinstance(piece, str)], body, spans)
    citations: list[Citation] = []
    faults: dict[int, Fault] = {}

    def add_quote(quote: str, found: Span | Fault) -> None:
        if isinstance(found, Span):
            citations.append(cite_place(quote, found))
            return
        faults[len(citations)] = found
        page = read_on(quote)
        citations.append(_citation(body, quote, None) if page is None else _seen(body, page, True, quote))

    def cite_place(quote: str, place: Span) -> Citation:
        if _has_no_text(quote, place, body):
            return _seen(body, place, was_seen(place))
        return _citation(body, quote, place)

    for piece in pieces:
        if isinstance(piece, str):
            add_quote(piece, places[piece])
        elif isinstance(piece, SeenPages):
            citations.append(_seen(body, piece.span, was_seen(piece.span)))
        elif isinstance(piece, ComputedFrom):
            first = cite_place(_text_at(piece.rows[0], body), piece.rows[0])
            citations.append(_computed(first, piece, body))
        else:
            citations.append(cite_place(_text_at(piece, body), piece))
    verified = [Span(one.start or 0, one.end or 0) for one in citations if one.verified]
    answer_quotes = list(dict.fromkeys(quote.rstrip(_SENTENCE_END) for quote in quotes_in(answer)))
    for quote, found in (await _look_up_passages(answer_quotes, body, verified)).items():
        if not isinstance(found, Span) or not any(
            one.start <= found.start and found.end <= one.end for one in verified
        ):
            add_quote(quote, found)
    return Cited(_numbered(citations), faults)


async def _look_up(quotes: Sequence[str], body: Body, near: Sequence[Span]) -> dict[str, Span | Fault]:
    """Return the place of each quote. A quote that proves nothing is not looked up."""
    each = list(dict.fromkeys(quotes))
    telling = [quote for quote in each if not _proves_nothing(quote)]
    wanted = [Wanted(quote, None if len(quote.split()) > 1 else _MAX_PLACES) for quote in telling]
    places = dict(zip(telling, await find_places(wanted, body, near), strict=True))
    return {quote: places.get(quote, "common") for quote in each}


async def _look_up_passages(
    passages: Sequence[str], body: Body, near: Sequence[Span]
) -> dict[str, Span | Fault]:
    """Return the place of each passage that an answer quotes. Its first letter may be a capital that only the
    sentence of the answer gave it."""
    lowered = {passage: passage[:1].lower() + passage[1:] for passage in passages if passage[:1].isupper()}
    places = await _look_up([*passages, *lowered.values()], body, near)
    return {
        passage: places[passage]
        if isinstance(places[passage], Span) or passage not in lowered
        else places[lowered[passage]]
        for passage in passages
    }


def _proves_nothing(quote: str) -> bool:
    """Return whether a quote is so short, or of such words, that any text may hold it."""
    words = _WORD.findall(quote[:_MAX_SHOWN_CHARS].casefold())
    if not quote.strip() or not words:
        return False  # it is not found anyway, or it is punctuation to be found as it is
    return _width("".join(words)) < _MIN_WIDTH or all(word in FUNCTION_WORDS for word in words)


def _is_inside(span: Span, body: Body) -> bool:
    return 0 <= span.start < span.end <= body.chars


def _text_at(span: Span, body: Body) -> str:
    """Return the text of a span as it is shown; "" outside the body."""
    return (
        body.text(span.start, min(span.end, span.start + _MAX_SHOWN_CHARS)) if _is_inside(span, body) else ""
    )


def _has_no_text(quote: str, span: Span, body: Body) -> bool:
    """Return whether evidence is a place of pages that holds no text of its own."""
    document = body.document_at(span.start) if _is_inside(span, body) else None
    if document is None or not document.pages:
        return False
    return not quote.strip() or document.kind == PICTURE_KIND


def _seen(body: Body, place: Span, is_seen: bool, quote: str = "") -> Citation:
    """Cite pages by what was seen on them: no text verifies it. If no child saw them, nothing does."""
    location = body.place(place.start)
    name, page = (None, None) if location is None else (location.document, location.page)
    quote = quote[:_MAX_SHOWN_CHARS]
    return Citation("", quote, place.start, place.end, name, page, None, verified=False, seen=is_seen)


def _citation(body: Body, quote: str, place: Span | None) -> Citation:
    start, end = (None, None) if place is None else place
    unverified = Citation("", quote[:_MAX_SHOWN_CHARS], start, end, None, None, None, verified=False)
    if place is None or not _is_inside(place, body):
        return unverified
    location, document = body.place(place.start), body.document_at(place.start)
    if location is None or document is None:
        return replace(unverified, verified=True)
    last_page = None
    if document.pages:
        last_page = body.marks.page(min(place.end, document.end) - 1, document.start)
    return replace(
        unverified,
        verified=True,
        document=location.document,
        page=location.page,
        line=location.line - body.line_of(document.start),
        message=location.message,
        author=location.author or location.role or None,
        time=location.time or None,
        heading_path=location.heading_path,
        cell_place=cell_place(body, document, place),
        part=part_at(body, place.start) or None,
        last_page=None if last_page == location.page else last_page,
    )


def _computed(citation: Citation, piece: ComputedFrom, body: Body) -> Citation:
    """Return the citation of the first row with the places of all: `orders.csv:3, 7 and 12 more rows`. It is
    unverified if one of the rows is outside the body."""
    others = [_citation(body, _text_at(row, body), row) for row in piece.rows[1:]]
    if not citation.verified or not all(one.verified for one in others):
        return replace(citation, verified=False)
    told = dict.fromkeys(
        one.place
        if one.document != citation.document
        else one.cell_place.rsplit(", ", 1)[-1]
        if one.cell_place
        else str(one.line)
        for one in others
    )
    left = piece.total - len(piece.rows)
    more = f" and {left:,} more row{'' if left == 1 else 's'}" if left else ""
    return replace(citation, rows_place=", ".join([citation.place, *told]) + more)


def _is_passage(text: str) -> bool:
    width = _width(text)
    # East Asian text has no blanks between its words.
    return width >= _MIN_ANSWER_QUOTE and (width > len(text) or len(text.split()) > 1)


def _width(text: str) -> int:
    return sum(2 if "\u2e80" <= char <= "\U0003ffff" else 1 for char in text)
