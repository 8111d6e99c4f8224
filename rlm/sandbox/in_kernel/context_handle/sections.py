"""Finds what a place belongs to: its message, heading, definition or page, otherwise its document."""

from __future__ import annotations

import re
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

from ..body.body import Body, Document
from ..body.place_index import Place

__all__ = ["Section", "section_of"]

_WINDOW = 64 * 1024
_TITLE = 200
_NUMBERED = "Chapter|Book|Part|Act|Scene|Session|Episode|Section|Day|Volume"
_HEADING = re.compile(
    r"(?:^|\n)(?P<line>#{1,6}[ \t]+\S[^\n]*"
    r"|={2,}[ \t]*[^\s=][^\n]*"
    r"|(?P<rule>-{3,}|\*{3,}|_{3,}|~{3,})[ \t]*[^\s\-*_~][^\n]*(?P=rule)[ \t\r]*(?=\n|$)"
    rf"|(?:{_NUMBERED}|{_NUMBERED.upper()})[ \t]+(?:\d{{1,4}}|[IVXLC]{{1,7}})"
    r"(?:[.:\u2014\u2013-][^\n]{0,80}|[ \t\r]*)(?=\n|$))"
)
"""A heading of Markdown; a title between or after rules (`=== SESSION 1 ===`); a numbered part of a work."""
_BLOCK = re.compile(
    r"(?:^|\n)(?P<line>[ \t]*(?:(?:export|default|pub|public|private|protected|static|abstract|async)[ \t]+)*"
    r"(?:def|class|fn|func|function|interface|struct|impl|trait|enum|module)\b[^\n]*)"
)
_CLOSING = re.compile(r"[ \t]*(?:[)}\]]+[;,]?|end)[ \t\r]*$")


@dataclass(frozen=True, slots=True)
class Section:
    """The facts of a section, and a function that finds its end."""

    facts: dict[str, Any]
    end: Callable[[], int]


def section_of(body: Body, char: int) -> Section:
    """Return title, kind, start, document, path, page and message of the section of a place, and its end.

    `title` has at most 200 characters. `kind` is message, heading, code, page or document. `path` holds the
    titles of all headings above, from the top. `page` and `message` count from 1, or are None. In code it
    is the nearest definition above that is less indented than the place's own line.
    """
    char = min(char, body.chars - 1)
    document, place = body.document_at(char), body.place(char)
    if document is None or place is None:
        raise ValueError("the input is empty: it has no sections")
    kind, start, title, end = _nearest(body, document, char, place)
    facts = {
        "title": title[:_TITLE],
        "kind": kind,
        "start": start,
        "document": document.name,
        "path": list(place.heading_path),
        "page": place.page,
        "message": place.message,
    }
    return Section(facts, end)


_Found = tuple[str, int, str, Callable[[], int]]
"""Kind, start, title, and a function that returns the end."""


def _nearest(body: Body, document: Document, char: int, place: Place) -> _Found:
    marks = body.marks
    row = marks.message(char, document.start)
    if row is not None:
        start, end, _ = marks.messages.row(row)
        title = body.text(start, start + 4 * _TITLE).partition("\n")[0]
        return "message", start, title, lambda: end
    if place.heading_path:
        heading = marks.path(char, document.start)[-1]
        title = place.heading_path[-1]
        return "heading", marks.headings[heading], title, lambda: _heading_end(body, document, heading)
    if document.kind in ("markdown", "text"):
        found = _above(body, document, char, _HEADING, None)
        if found is not None:
            shape, line_start = _shape(found[1]), found[0]
            end_of = lambda: _below(body, document, line_start, shape)  # noqa: E731 - a name for each kind
            return "heading", line_start, found[1].strip(" \t\r#=-*_~"), end_of
    if document.kind == "code":
        found = _above(body, document, char, _BLOCK, _indent_at(body, char))
        if found is not None:
            block = found[0]
            return "code", block, found[1].strip(), lambda: _block_end(body, document, block)
    if place.page is not None:
        page = marks.pages.last(char, document.start)
        assert page is not None
        after = marks.pages[page + 1] if page + 1 < len(marks.pages) else document.end
        page_end = min(after, document.end)
        return "page", marks.pages[page], f"{document.name}, page {place.page}", lambda: page_end
    return "document", document.start, document.name, lambda: document.end


def _heading_end(body: Body, document: Document, row: int) -> int:
    """Return where the next heading of the same or a higher level begins."""
    headings, level = body.marks.headings, body.marks.level(row)
    for number in range(row + 1, len(headings)):
        if headings[number] >= document.end:
            break
        if body.marks.level(number) <= level:
            return int(headings[number])
    return document.end


def _shape(line: str) -> tuple[str, int]:
    """Return what headings of one kind have in common: the mark or the word, and the level of Markdown's."""
    text = line.strip()
    if text[0] == "#":
        return "#", len(text) - len(text.lstrip("#"))
    return text.split(None, 1)[0].casefold() if text[0].isalpha() else text[0], 0


def _below(body: Body, document: Document, line_start: int, shape: tuple[str, int]) -> int:
    """Return where the next heading of this shape begins, or of a higher level, or the document's end."""
    start = line_start + 1
    while start < document.end:
        end = min(document.end, start + _WINDOW)
        # A heading that is cut here is found in the next window, which begins a little before.
        for match in _HEADING.finditer(body.text(start, min(document.end, end + 2 * _TITLE))):
            place = start + match.start("line")
            if place > end:
                break
            mark, level = _shape(match["line"])
            if place > line_start and mark == shape[0] and level <= shape[1] and _begins_line(body, place):
                return place
        start = end
    return document.end


def _block_end(body: Body, document: Document, start: int) -> int:
    """Return where the lines end that are indented more than the first, with the line that closes them."""
    number = body.line_of(start)
    indent = _indent(body.text(start, start + _TITLE))
    line = number + 1
    while (at := body.line_start(line)) < document.end:
        text = body.text(at, at + _TITLE).partition("\n")[0]
        if text.strip() and _indent(text) <= indent:
            return min(document.end, body.line_start(line + 1)) if _CLOSING.match(text) else at
        line += 1
    return document.end


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
            place, line = start + match.start("line"), match["line"]
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
