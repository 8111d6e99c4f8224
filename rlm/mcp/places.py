"""Read a place of a document, and the place of a citation of a stored run."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm.documents import Source
from rlm.documents.workspace import Workspace
from rlm.errors import JournalError, UsageError
from rlm.escaping import terminal_line, terminal_text
from rlm.journal import Journal
from rlm.mcp.results import MAX_TEXT, Passage
from rlm.prompts.boundary import ForeignText, bounded
from rlm.runs.stored_run import StoredRun, stored_result
from rlm.sandbox.text.body import Body, Document

__all__ = ["Wanted", "read_citation", "read_passage"]

_AROUND = 800
"""Characters shown before and after a citation."""
_LISTED = 20


@dataclass(frozen=True, slots=True)
class Wanted:
    """A place of a document: a character from 0, or a line or page from 1; else its beginning. `document` is
    one of several in a folder."""

    document: str | None = None
    start: int | None = None
    line: int | None = None
    page: int | None = None
    chars: int = 4_000

    def __post_init__(self) -> None:
        given = [one for one in ("start", "line", "page") if getattr(self, one) is not None]
        if len(given) > 1:
            raise UsageError(f"{' and '.join(given)} are given: give only one of them")
        if not 1 <= self.chars <= MAX_TEXT:
            raise UsageError(f"chars is {self.chars}: give 1 to {MAX_TEXT:,}")


async def read_passage(sources: Sequence[Source], wanted: Wanted) -> Passage:
    """Return the text at a place. Raises UsageError for a place that is not there."""
    with Workspace() as workspace:
        loaded = await workspace.load(sources)
        with loaded.context.open() as body:
            document = _choose(body, wanted.document)
            start = _find(body, document, wanted)
            end = min(document.end, start + wanted.chars)
            first = body.line_of(document.start)
            last = max(start, end - 1)
            place = body.place(min(start, max(document.start, document.end - 1)))
            return Passage(
                document=terminal_line(document.name),
                text=terminal_text(body.text(start, end)),
                start=start - document.start,
                end=end - document.start,
                line=body.line_of(start) - first + 1,
                last_line=body.line_of(last) - first + 1,
                page=place.page if place else None,
                heading_path=[terminal_line(one) for one in place.heading_path] if place else [],
                document_chars=document.end - document.start,
                document_lines=body.line_of(max(document.start, document.end - 1)) - first + 1,
                next_start=end - document.start if end < document.end else None,
            )


def _choose(body: Body, name: str | None) -> Document:
    if name is None and len(body.documents) == 1:
        return body.documents[0]
    for document in body.documents:
        if document.name == name:
            return document
    names = ", ".join(terminal_line(one.name) for one in body.documents[:_LISTED])
    more = ", …" if len(body.documents) > _LISTED else ""
    said = "several documents" if name is None else f"no document {name[:200]!r}"
    raise UsageError(f"the path holds {said}: give document as one of {names}{more}")


def _find(body: Body, document: Document, wanted: Wanted) -> int:
    """Return the first character of the place, of the body."""
    size = document.end - document.start
    if wanted.line is not None:
        first = body.line_of(document.start)
        last = body.line_of(max(document.start, document.end - 1)) - first + 1
        if not 1 <= wanted.line <= last:
            raise UsageError(f"line is {wanted.line}: the document has {last:,} lines")
        return max(document.start, body.line_start(first + wanted.line - 1))
    if wanted.page is not None:
        if not document.pages:
            raise UsageError("page is given, and the document has no pages: give line or start")
        if not 1 <= wanted.page <= document.pages:
            raise UsageError(f"page is {wanted.page}: the document has {document.pages:,} pages")
        return _first_of_page(body, document, wanted.page)
    start = wanted.start or 0
    if not 0 <= start <= max(0, size - 1):
        raise UsageError(f"start is {start}: the document has {size:,} characters")
    return document.start + start


def _first_of_page(body: Body, document: Document, page: int) -> int:
    """Return the first character of a page. Pages ascend, so a bisection finds it."""
    low, high = document.start, max(document.start, document.end - 1)
    while low < high:
        middle = (low + high) // 2
        if (body.marks.page(middle, document.start) or 0) < page:
            low = middle + 1
        else:
            high = middle
    return low


async def read_citation(journal: Journal, run_id: str, number: int) -> str:
    """Return the place of citation `number` (from 1) with the text around it. Lines with a code part the
    document's text from ours. Raises JournalError and UsageError."""
    stored = await StoredRun.read(journal, run_id, job=(await journal.get(run_id)).settings.get("job"))
    result = stored_result(run_id, stored.events)
    if result is None:
        raise JournalError(f"run {run_id} has not ended: it has no citations yet")
    if not 1 <= number <= len(result.citations):
        raise UsageError(f"run {run_id} has {len(result.citations):,} citations, and no number {number}")
    citation = result.citations[number - 1]
    place = terminal_line(citation.place)
    if citation.start is None or citation.end is None:
        quote = ForeignText("a quote that the input does not hold", terminal_text(citation.quote)[:MAX_TEXT])
        return bounded([quote], "end of the quote")
    with Workspace() as workspace:
        loaded = await stored.load(journal, workspace)
        with loaded.context.open() as body:
            document = body.document_at(citation.start)
            low = max(document.start if document else 0, citation.start - _AROUND)
            high = min(document.end if document else body.chars, citation.end + _AROUND)
            quoted = body.text(citation.start, min(citation.end, citation.start + MAX_TEXT))
            texts = [
                ForeignText(
                    f"{place}: the text before the quote", terminal_text(body.text(low, citation.start))
                ),
                ForeignText(
                    "the quote, as the document has it" if citation.verified else "not the quote: its place",
                    terminal_text(quoted),
                ),
                ForeignText("the text after the quote", terminal_text(body.text(citation.end, high))),
            ]
            return bounded(texts, "end of the document's text")
