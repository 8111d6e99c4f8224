"""Finds what a place belongs to: its message, heading, definition or page, otherwise its document."""

from __future__ import annotations

import re

from ..body.body import Body, Document
from ..body.place_index import Place
from .records import Record

__all__ = ["section_of"]

_WINDOW = 64 * 1024
_TITLE = 200
_HEADING = re.compile(r"(?:^|\n)(#{1,6}[ \t]+\S[^\n]*)")
_BLOCK = re.compile(
    r"(?:^|\n)([ \t]*(?:(?:export|default|pub|public|private|protected|static|abstract|async)[ \t]+)*"
    r"(?:def|class|fn|func|function|interface|struct|impl|trait|enum|module)\b[^\n]*)"
)


def section_of(body: Body, char: int) -> Record:
    """Return title, kind, start, document, path, page and message of the place `char`.

    `title` has at most 200 characters. `kind` is message, heading, code, page or document. `path` holds the
    titles of all headings above, from the top. `page` and `message` count from 1, or are None. In code it
    is the nearest definition above that is less indented than the place's own line.
    """
    char = min(char, body.chars - 1)
    document, place = body.document_at(char), body.place(char)
    if document is None or place is None:
        raise ValueError("the input is empty: it has no sections")
    kind, start, title = _nearest(body, document, char, place)
    return Record(
        title=title[:_TITLE],
        kind=kind,
        start=start,
        document=document.name,
        path=list(place.heading_path),
        page=place.page,
        message=place.message,
    )


def _nearest(body: Body, document: Document, char: int, place: Place) -> tuple[str, int, str]:
    """Return kind, start and title."""
    marks = body.marks
    row = marks.message(char, document.start)
    if row is not None:
        start = marks.messages[row]
        return "message", start, body.text(start, start + 4 * _TITLE).partition("\n")[0]
    if place.heading_path:
        return "heading", marks.headings[marks.path(char, document.start)[-1]], place.heading_path[-1]
    if document.kind in ("markdown", "text"):
        found = _above(body, document, char, _HEADING, None)
        if found is not None:
            return "heading", found[0], found[1].strip().lstrip("#").strip()
    if document.kind == "code":
        found = _above(body, document, char, _BLOCK, _indent_at(body, char))
        if found is not None:
            return "code", found[0], found[1].strip()
    if place.page is not None:
        page = marks.pages.last(char, document.start)
        assert page is not None
        return "page", marks.pages[page], f"{document.name}, page {place.page}"
    return "document", document.start, document.name


def _above(
    body: Body, document: Document, char: int, mark: re.Pattern[str], indent: int | None
) -> tuple[int, str] | None:
    """Return (start, line) of the last marked line at or above `char` in the document.

    With `indent`, the line must be less indented than that, or hold `char` itself.
    """
    own = body.line_start(body.line_of(char))
    # The line of the place itself counts, whole (as far as a title goes).
    end = min(document.end, own + 2 * _TITLE)
    while end > document.start:
        start = max(document.start, end - _WINDOW)
        if start > document.start:
            start = max(document.start, body.line_start(body.line_of(start)))
            start = start if end - start <= 2 * _WINDOW else end - _WINDOW
        text = body.text(start, end)
        for match in reversed(list(mark.finditer(text))):
            place, line = start + match.start(1), match[1]
            if place > own or not _begins_line(body, place):
                continue
            if indent is None or place == own or _indent(line) < indent:
                return place, line
        end = start
    return None


def _begins_line(body: Body, char: int) -> bool:
    return char == 0 or body.text(char - 1, char) == "\n"


def _indent_at(body: Body, char: int) -> int:
    start = body.line_start(body.line_of(char))
    return _indent(body.text(start, start + _TITLE))


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip(" \t"))
