"""Finds the sentence at a place."""

from __future__ import annotations

import re
from collections.abc import Iterator

from ...text.body import Body, Span

__all__ = ["sentence_at"]

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
