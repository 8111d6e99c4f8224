"""Names the part of a document that holds a character, as its format counts them: a slide, a cell, a time."""

from __future__ import annotations

import re

from .body import Body

__all__ = ["part_at"]

_NUMBERED = {"pptx": "Slide", "odp": "Slide", "notebook": "Cell"}
"""The word before the number in the top headings of a kind of document. Its reader writes these headings."""
_TIMED = "subtitles"
_NUMBER = re.compile(r"[A-Z][a-z]+ \d{1,9}\b")
_TIME = re.compile(r"^\[(\d{2,3}:\d\d:\d\d)\] ", re.MULTILINE)
_LONGEST_LINE = 20_000


def part_at(body: Body, char: int) -> str:
    """Return `slide 3`, `cell 7` or `00:12:05`; "" if the document has no such parts, or in front of them."""
    document = body.document_at(char)
    if document is None:
        return ""
    if document.kind == _TIMED:
        before = max(document.start, char - _LONGEST_LINE)
        start = before + body.text(before, char).rfind("\n") + 1
        # What stands before the first cue, or between two, gets the time of the next one.
        time = _TIME.search(body.text(start, min(document.end, start + _LONGEST_LINE)))
        return time[1] if time else ""
    word = _NUMBERED.get(document.kind)
    path = body.heading_path(char) if word else ()
    number = _NUMBER.match(path[0]) if path else None
    return number[0].lower() if number and number[0].startswith(f"{word} ") else ""
