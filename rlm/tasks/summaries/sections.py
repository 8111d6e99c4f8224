"""Divide documents into sections by their headings, else by their pages, else by their length."""

from __future__ import annotations

import re
from collections.abc import Iterator

from rlm.lazy_dataclass import dataclass
from rlm.sandbox.text.body import Body, Document

__all__ = ["DocumentSection", "cut_evenly", "sections_of"]

_MAX_SECTIONS = 24
_PAGES_PER_SECTION = 8
_CHARS_PER_SECTION = 20_000
_MIN_CHARS = 200
_SENTENCE_END = re.compile(r"\n[ \t]*\n\s*|[.!?…][\"'”’)]*\s+|\n")
_REACH = 2_000


@dataclass(frozen=True, slots=True)
class DocumentSection:
    """A titled span of one document."""

    title: str
    document: str
    start: int
    end: int

    @property
    def chars(self) -> int:
        return self.end - self.start


def sections_of(body: Body, *, most: int = _MAX_SECTIONS) -> tuple[DocumentSection, ...]:
    """Return about `most` sections, at least one a document, in order. Together they are the whole body
    without blank parts."""
    if not body.documents:
        return ()
    share = max(1, most // len(body.documents))
    several = len(body.documents) > 1
    return tuple(
        section
        for document in body.documents
        for section in _divide_document(body, document, share, several=several)
        if body.text(section.start, section.end).strip()
    )


def cut_evenly(body: Body, start: int, end: int, count: int) -> list[int]:
    """Return the starts of `count` parts of about equal size. Cuts where a sentence ends."""
    starts = [start]
    for part in range(1, count):
        at = start + (end - start) * part // count
        found = _SENTENCE_END.search(body.text(at, min(at + _REACH, end)))
        starts.append(at + found.end() if found else at)
    return starts


def _divide_document(
    body: Body, document: Document, most: int, *, several: bool
) -> Iterator[DocumentSection]:
    borders = _by_headings(body, document, most)
    if borders is None:
        borders = _by_pages(body, document, most) or _by_length(body, document, most)
    name = f"{document.name}: " if several else ""
    ends = [*(start for start, _ in borders[1:]), document.end]
    for (start, title), end in zip(borders, ends, strict=True):
        shown = " ".join(title.split()) or document.name
        yield DocumentSection(f"{name}{shown}" if title else shown, document.name, start, end)


def _by_headings(body: Body, document: Document, most: int) -> list[tuple[int, str]] | None:
    """Return (start, title) for the headings down to the deepest level with at most `most` of them. None if
    there are fewer than two. If the top level alone has too many, groups of its sections are merged."""
    table = body.marks.headings
    rows = table.between(document.start, document.end)
    levels = sorted({body.marks.level(row) for row in rows})
    chosen: list[int] = []
    for level in levels:
        down_to_level = [row for row in rows if body.marks.level(row) <= level]
        if len(down_to_level) > most and chosen:
            break
        if len(down_to_level) <= most or level == levels[0]:
            chosen = down_to_level
    if len(chosen) < 2:
        return None
    borders = [(table[row], body.text(*body.marks.title(row)).strip()) for row in chosen]
    if len(borders) > most:
        step = -(-len(borders) // most)
        borders = [
            (borders[at][0], borders[at][1] + (" …" if step > 1 else ""))
            for at in range(0, len(borders), step)
        ]
    if borders[0][0] - document.start > _MIN_CHARS:
        borders.insert(0, (document.start, "Beginning"))
    else:
        borders[0] = (document.start, borders[0][1])
    return borders


def _by_pages(body: Body, document: Document, most: int) -> list[tuple[int, str]]:
    table = body.marks.pages
    rows = table.between(document.start, document.end)
    if len(rows) < 2:
        return []
    step = max(-(-len(rows) // most), min(_PAGES_PER_SECTION, -(-len(rows) // 4)))
    groups = [list(rows)[at : at + step] for at in range(0, len(rows), step)]
    borders = []
    for group in groups:
        first = group[0] - rows[0] + 1
        last = group[-1] - rows[0] + 1
        borders.append((table[group[0]], f"Page {first}" if first == last else f"Pages {first}–{last}"))
    borders[0] = (document.start, borders[0][1])
    return borders


def _by_length(body: Body, document: Document, most: int) -> list[tuple[int, str]]:
    size = document.end - document.start
    count = max(1, min(most, 8, -(-size // _CHARS_PER_SECTION)))
    if count == 1:
        return [(document.start, "")]
    starts = cut_evenly(body, document.start, document.end, count)
    return [(start, f"Part {number} of {count}") for number, start in enumerate(starts, 1)]
