"""The passages that an answer cites, with what stands around them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm.results import Citation
from rlm.sandbox.text.body import Body
from rlm.sandbox.text.surroundings import sentence_at
from rlm.sandbox.types import Span

__all__ = ["MAX_PASSAGE_CHARS", "Passage", "passages_of", "statement_of"]

MAX_PASSAGE_CHARS = 12_000
"""Characters of one passage that are compared."""
_NEAR_CHARS = 150
_MAX_STATEMENT = 1_200
_LINE_CHARS = 300
"""Characters before a sentence, to the beginning of its line, that are shown with it (a speaker, a date), and
after it, to the end of its line."""
_HEAD_CHARS = 200
"""Characters of the beginning of a long record, which has its id and title."""


@dataclass(frozen=True, slots=True)
class Passage:
    """A cited passage. `shown` are the whole sentences or the record that it is part of, "" if that is the
    passage itself, and `near` is the text around these. `label` is its place, with author and time of a
    message. `found` is False if the text does not hold it.

    A message of a conversation says little alone: `window` holds the numbers, from 1, of the first and the
    last passage that a model is shown with it. They are the messages around it, and each of them is a
    passage, too. `follows`: it stands right after the passage before it in the text.
    """

    text: str
    near: str = ""
    label: str = ""
    found: bool = True
    window: tuple[int, int] | None = None
    follows: bool = False
    shown: str = ""


def passages_of(citations: Sequence[Citation], body: Body) -> tuple[Passage, ...]:
    """Return the passage of each citation, in order."""
    return tuple(_passage(citation, body) for citation in citations)


def _passage(citation: Citation, body: Body) -> Passage:
    start, end = citation.start, citation.end
    if not citation.verified or start is None or end is None:
        return Passage(citation.quote, label=citation.place, found=False)
    document = body.document_at(start)
    low, high = (0, body.chars) if document is None else (document.start, document.end)
    cut = min(end, start + MAX_PASSAGE_CHARS)
    headings = " > ".join(citation.heading_path)
    shown, (first, last) = _statement(body, start, cut)
    before = body.text(max(low, first - _NEAR_CHARS), first) if first > low else ""
    after = body.text(last, min(high, last + _NEAR_CHARS)) if last < high else ""
    if document is not None and document.has_records:
        before = after = ""
    return Passage(
        body.text(start, cut),
        near=" … ".join(filter(None, (_one_line(before), _one_line(after)))),
        label=f"{citation.place}; {headings}" if headings else citation.place,
        shown=shown,
    )


def statement_of(body: Body, start: int, end: int) -> str:
    """Return the whole sentences or the record that a passage is part of, on one line. Wrapped lines are
    joined. A sentence is shown with its line, which may begin with a speaker. Of a long record only its
    beginning and the passage are shown. A passage is never cut."""
    return _statement(body, start, end)[0]


def _statement(body: Body, start: int, end: int) -> tuple[str, Span]:
    """Return the words of `statement_of`, and the place that they take."""
    document = body.document_at(start)
    low, high = (0, body.chars) if document is None else (document.start, document.end)
    before = body.text(max(low, start - _MAX_STATEMENT), start).rpartition("\n")[2]
    after = body.text(end, min(high, end + _MAX_STATEMENT)).partition("\n")[0]
    if document is not None and document.has_records:
        whole = _one_line(body.text(start - len(before), end + len(after)))
        if len(whole) <= max(_MAX_STATEMENT, end - start):
            return whole, Span(start, end)
        head = f"{before[:_HEAD_CHARS]} … " if before else ""
        return _one_line(head + body.text(start, end)), Span(start, end)
    first, last = sentence_at(body, Span(start, end))
    if last - first > max(_MAX_STATEMENT, end - start):
        first, last = start, end
    first, last = min(first, start), max(last, end)
    if len(before) <= _LINE_CHARS:
        first = min(first, start - len(before))
    if len(after) <= _LINE_CHARS:
        last = max(last, end + len(after))
    return _one_line(body.text(first, last)), Span(first, last)


def _one_line(text: str) -> str:
    return " ".join(text.split())
