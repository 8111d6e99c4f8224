"""Finds where one text holds several printed works one after another, by their page numbers.

The numbers of pages stand alone on a line or in a running head (`Annual Report 2024   12`). Where they grow
page by page and then begin again, another work begins. Anything less clear counts as one work.
"""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterator
from itertools import pairwise
from statistics import median
from typing import NamedTuple

from ..body.body import Body, Document, Span

__all__ = ["parts_of"]

MAX_CHARS = 4_000_000
"""Characters of a longer text, which is not looked at."""
_LEAST_PAGES = 5
_LATEST_FIRST_PAGE = 6
"""The number of the first page of a work that bears one."""
_PAGE_CHARS = (400, 8_000)
"""Characters of a usual page. Numbers that stand closer or farther are those of items or of chapters."""
_LONGEST_PAGE = 8
"""Times the usual page."""
_NEAREST, _FARTHEST = 100, 30_000
"""Characters between two numbers of pages that follow each other."""
_TITLE = 120
_LONGEST_HEAD = 100
_HEAD = re.compile(
    r"(?P<first>\d{1,4})(?:[ \t|]{2,}(?P<after>\S.*))?"
    r"|(?P<before>\S.*?)(?:[ \t|]{2,}|[ \t]+[Pp]age[ \t]+)(?P<last>\d{1,4})"
    r"|[-\u2013\u2014][ \t]*(?P<dashed>\d{1,4})[ \t]*[-\u2013\u2014]"
    r"|[Pp]age[ \t]+(?P<named>\d{1,4})(?:[ \t]+of[ \t]+\d{1,4})?"
)


class _Page(NamedTuple):
    """A page number: its value, and the place of its line."""

    number: int
    start: int
    end: int


def parts_of(body: Body, document: Document) -> list[tuple[str, Span]]:
    """Return (first line, span) of each work in a document, in order. Empty if it holds only one."""
    size = document.end - document.start
    if document.kind not in ("text", "markdown") or not 2 * _PAGE_CHARS[0] * _LEAST_PAGES < size <= MAX_CHARS:
        return []
    text = body.text(document.start, document.end)
    runs = _works(text)
    if len(runs) < 2:
        return []
    borders = [0, *(_border(text, one, two) for one, two in pairwise(runs)), size]
    return [
        (_first_line(text, low, high), Span(document.start + low, document.start + high))
        for low, high in pairwise(borders)
    ]


def _works(text: str) -> list[list[_Page]]:
    """Return the pages of each work that begins with a low number, in order. Works do not overlap."""
    heads: defaultdict[str, list[_Page]] = defaultdict(list)
    end = -1
    for line in text.split("\n"):
        start, end = end + 1, end + 1 + len(line)
        head = line.strip() if len(line) <= _LONGEST_HEAD else ""
        # Most lines begin and end with letters: those cost no match.
        if not head or not (head[0].isdecimal() or head[-1].isdecimal() or head[-1] in "-\u2013\u2014"):
            continue
        match = _HEAD.fullmatch(head)
        if match is not None:
            number = next(match[name] for name in ("first", "last", "dashed", "named") if match[name])
            words = " ".join((match["before"] or match["after"] or "").split()).casefold()
            heads[words].append(_Page(int(number), start, end))
    runs = [run for pages in heads.values() for run in _runs(pages) if _is_paged(run)]
    works: list[list[_Page]] = []
    for run in sorted(runs, key=lambda run: run[0].start):
        if works and run[0].start < works[-1][-1].start:
            # Two heads of one work: the longer one stands for both.
            if len(run) > len(works[-1]):
                works[-1] = run
            continue
        if works and run[0].number > works[-1][-1].number:
            works[-1] = works[-1] + run
            continue
        works.append(run)
    return works if all(run[0].number <= _LATEST_FIRST_PAGE for run in works) else []


def _runs(pages: list[_Page]) -> Iterator[list[_Page]]:
    """Yield the stretches of at least five numbers in which each is one or two more than the last.

    Stray numbers, such as those of tables, stand between them: so several stretches are open at a time.
    """
    open_runs: dict[int, list[_Page]] = {}
    for page in pages:
        before = [
            number
            for number in (page.number - 1, page.number - 2)
            if number in open_runs and _NEAREST <= page.start - open_runs[number][-1].end <= _FARTHEST
        ]
        if before:
            run = open_runs.pop(max(before, key=lambda number: len(open_runs[number])))
            run.append(page)
        elif page.number <= _LATEST_FIRST_PAGE:
            run = [page]
        else:
            continue
        ended = open_runs.get(page.number)
        if ended is not None and len(ended) >= _LEAST_PAGES:
            yield ended
        open_runs[page.number] = run
    yield from (run for run in open_runs.values() if len(run) >= _LEAST_PAGES)


def _is_paged(run: list[_Page]) -> bool:
    """Return whether numbers stand as far from each other as pages do, and about evenly."""
    gaps = [two.start - one.end for one, two in pairwise(run)]
    usual = median(gaps)
    return _PAGE_CHARS[0] <= usual <= _PAGE_CHARS[1] and max(gaps) <= _LONGEST_PAGE * usual


def _border(text: str, one: list[_Page], two: list[_Page]) -> int:
    """Return where the second work begins: after the largest gap between the last page number of the one
    and the first of the other, or after that number."""
    low, high = one[-1].end, two[0].start
    if "\f" in text[low:high]:
        return low + text[low:high].index("\f") + 1
    if text[low : low + 2] == "\n\n" or two[0].number > 1 or not text[low:high].strip():
        following = re.compile(r"\s*").match(text, low)
        return following.end() if following and following.end() <= high else high
    gaps = list(re.finditer(r"\n(?:[ \t\r]*\n){2,}", text[low:high]))
    best = max(gaps, key=lambda gap: gap.end() - gap.start(), default=None)
    return low + (best.end() if best else 1)


def _first_line(text: str, low: int, high: int) -> str:
    return next((line.strip()[:_TITLE] for line in text[low:high].split("\n") if line.strip()), "")
