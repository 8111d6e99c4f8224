"""Finds what a place belongs to: its sentence; its message, its heading's section, its page or document."""

from __future__ import annotations

import re
from collections.abc import Iterator

from .body import Body, Document, Span

__all__ = ["section_of", "sentence_at"]

_REACH = 1_500
"""Characters of a sentence before and after the place."""
_END = re.compile(
    r"(?P<stop>[.!?…]+[\"'”’»)\]*_]*)(?=\s|\\n|$)|(?P<wide>[。！？][”』」）]*)"
    r"|(?P<blank>[ \t\r]*\n(?:[ \t\r]*\n)+)|(?P<line>[ \t\r]*(?:\n|\\n))"
)
_FIELD = re.compile(r'(?<!\\)"')
_ABBREVIATED = re.compile(
    r"(?:^|[\s(\[\"“])(?:[A-Z]|Mr|Mrs|Ms|Dr|Prof|St|Jr|Sr|vs|cf|No|Nos|Fig|Eq|Sec|Art|pp?|e\.g|i\.e|al|ca|approx)\.$"
)
_NEW_LINE = re.compile(r"[ \t]*(?:[-*•|>#\[{(=]|\d|[A-Z][\w .'-]{0,30}:\s)")
"""The beginning of a line that continues no sentence: a mark of a list or a record, or a speaker."""
_WRAPPED = 30
"""Characters of a shorter line, which was not broken because it was full."""
_RECORDS = frozenset({"csv", "json", "jsonl", "code"})
_WINDOW = 64 * 1024
_HEADING_CHARS = 400
"""Characters that a window reads beyond its end, so that a heading there is whole."""
_HEADING = re.compile(r"(?:^|\n)(?P<line>(?P<mark>#{1,6})[ \t]+\S[^\n]*)")


def section_of(body: Body, char: int) -> Span:
    """Return the span of the section of a place. Raises ValueError if the body is empty."""
    char = min(char, body.chars - 1)
    document, place = body.document_at(char), body.place(char)
    if document is None or place is None:
        raise ValueError("the input is empty: it has no sections")
    marks = body.marks
    row = marks.message(char, document.start)
    if row is not None:
        start, end, _ = marks.messages.row(row)
        return Span(start, end)
    if place.heading_path:
        heading = marks.path(char, document.start)[-1]
        return Span(marks.headings[heading], _heading_end(body, document, heading))
    if document.kind in ("markdown", "text"):
        found = _above(body, document, char)
        if found is not None:
            return Span(found[0], _below(body, document, *found))
    if place.page is not None:
        page = marks.pages.last(char, document.start)
        assert page is not None
        after = marks.pages[page + 1] if page + 1 < len(marks.pages) else document.end
        return Span(marks.pages[page], min(after, document.end))
    return Span(document.start, document.end)


def _heading_end(body: Body, document: Document, row: int) -> int:
    """Return where the next heading of the same or a higher level begins."""
    headings, level = body.marks.headings, body.marks.level(row)
    for number in range(row + 1, len(headings)):
        if headings[number] >= document.end:
            break
        if body.marks.level(number) <= level:
            return int(headings[number])
    return document.end


def _above(body: Body, document: Document, char: int) -> tuple[int, int] | None:
    """Return start and level of the last heading of Markdown at or above `char` in the document."""
    end = min(document.end, body.line_start(body.line_of(char)) + _HEADING_CHARS)
    while end > document.start:
        start = max(document.start, end - _WINDOW)
        for match in reversed(list(_HEADING.finditer(body.text(start, end)))):
            place = start + match.start("line")
            if place <= char and _begins_line(body, place):
                return place, len(match["mark"])
        end = start
    return None


def _below(body: Body, document: Document, heading: int, level: int) -> int:
    """Return where the next heading of this or a higher level begins, or the document's end."""
    start = heading + 1
    while start < document.end:
        end = min(document.end, start + _WINDOW)
        # A heading that is cut here is found in the next window, which begins a little before.
        for match in _HEADING.finditer(body.text(start, min(document.end, end + _HEADING_CHARS))):
            place = start + match.start("line")
            if place > end:
                break
            if len(match["mark"]) <= level and _begins_line(body, place):
                return place
        start = end
    return document.end


def _begins_line(body: Body, char: int) -> bool:
    return char == 0 or body.text(char - 1, char) == "\n"


def sentence_at(body: Body, place: Span) -> Span:
    """Return the sentence that holds a place, or the sentences, without surrounding white space.

    It ends at a full stop, at a blank line, and at the end of a line that is not wrapped: a heading, an item,
    a row, a turn. It stays within its document and its message, and reaches 1,500 characters at most.
    """
    document = body.document_at(min(place.start, body.chars - 1))
    if document is None:
        return place
    first, last = document.start, document.end
    row = body.marks.message(place.start, document.start)
    if row is not None:
        first, last, _ = body.marks.messages.row(row)
    low = max(first, place.start - _REACH)
    high = min(last, max(place.end, place.start + 1) + _REACH)
    text = body.text(low, high)
    start, end = 0, len(text)
    for stop, following in _borders(text, document.kind):
        if following <= place.start - low:
            start = following
        elif stop >= place.end - low and stop > place.start - low:
            end = stop
            break
    sentence = text[start:end]
    start += len(sentence) - len(sentence.lstrip())
    return Span(low + start, low + start + len(sentence.strip()))


def _borders(text: str, kind: str) -> Iterator[tuple[int, int]]:
    """Yield (end of a sentence, start of the next one), in order."""
    if kind in ("json", "jsonl"):
        yield from sorted(
            {*_text_borders(text, kind), *((at.start(), at.end()) for at in _FIELD.finditer(text))}
        )
    else:
        yield from _text_borders(text, kind)


def _text_borders(text: str, kind: str) -> Iterator[tuple[int, int]]:
    for match in _END.finditer(text):
        what, end = match.lastgroup, match.end()
        if what == "stop" and _ABBREVIATED.search(text, max(0, match.start() - 12), match.start() + 1):
            continue
        if what == "line" and kind not in _RECORDS and _is_wrapped(text, match.start(), end):
            continue
        stop = match.start() if what in ("blank", "line") else end
        following = end
        while following < len(text) and text[following].isspace():
            following += 1
        yield stop, following


def _is_wrapped(text: str, end: int, following: int) -> bool:
    """Return whether the line that ends at `end` continues in the next one."""
    if text[end:following].endswith("\\n"):
        return False
    if _NEW_LINE.match(text, following):
        return False
    line = text[text.rfind("\n", 0, end) + 1 : end]
    if line.lstrip()[:1] == "#":
        return False
    return text[following : following + 1].islower() or len(line) >= _WRAPPED
