"""Tables on pages of a PDF as rows: words far apart are cells if the lines nearby have the same gaps."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

from rlm.documents.formats.flow import SEPARATOR, row_line

__all__ = ["page_text"]

_GAP = 0.9
"""Width of the gap between two cells, in heights of a letter. Words of justified lines are nearer."""
_ALIGNED = 3.0
"""Points by which the edges of the cells of a column may differ."""
_LONGEST_NUMBER = 20
_NEAR = 3
"""Lines from a row to the next: a cell may have several lines."""
_MARKER = re.compile(r"\W{1,2}|\(?(?:\d{1,3}|[A-Za-z]|[ivxIVX]{1,5})[.):]")
"""A bullet or number of a list, which also has a gap after it."""
_LINE = re.compile(r"[^\r\n]+")
_BETWEEN = re.compile(r"(?<=\S)\s+(?=\S)")


@dataclass(frozen=True, slots=True)
class _Cell:
    """The text between wide gaps of a line, with its edges in points."""

    text: str
    left: float
    right: float


def page_text(page: Any) -> str:
    """Return the text of a page (`PdfTextPage`) in PDFium's order. The cells of a row of a table, empty ones
    too, are separated by ` | `."""
    text: str = page.get_text_bounded()
    if not _has_gaps(page):
        return text
    chars: str = page.get_text_range()
    if len(chars) != page.count_chars():
        return text  # characters and boxes do not match
    found = list(_LINE.finditer(chars))
    lines = [list(_cells(page, chars, line.start(), line.end())) for line in found]
    numbers = [number for number in range(len(lines)) if _is_row(lines, number)]
    if not numbers:
        return text
    rows: dict[int, str] = {}
    for block in _blocks(numbers):
        rows.update(zip(block, _aligned([lines[number] for number in block]), strict=True))
    done, at = [], 0
    for number, row in rows.items():
        done += [chars[at : found[number].start()], row]
        at = found[number].end()
    return "".join(done) + chars[at:]


def _has_gaps(page: Any) -> bool:
    """Return whether at least two pieces of text have a wide gap to the next one of their line."""
    gaps = 0
    boxes = (page.get_rect(number) for number in range(page.count_rects()))
    for (_, bottom, right, top), (left, next_bottom, _, next_top) in pairwise(boxes):
        is_one_line = min(top, next_top) > max(bottom, next_bottom)
        gaps += is_one_line and left - right > _GAP * max(top - bottom, next_top - next_bottom)
        if gaps > 1:
            return True
    return False


def _cells(page: Any, chars: str, start: int, end: int) -> Iterator[_Cell]:
    begin = start
    left = page.get_charbox(start, loose=True)[0]
    for gap in _BETWEEN.finditer(chars, start, end):
        _, bottom, right, top = page.get_charbox(gap.start() - 1, loose=True)
        following = page.get_charbox(gap.end(), loose=True)[0]
        if following - right > _GAP * (top - bottom):
            yield _Cell(chars[begin : gap.start()].strip(), left, right)
            begin, left = gap.end(), following
    last = begin + len(chars[begin:end].rstrip())
    if last > begin:
        yield _Cell(chars[begin:last], left, page.get_charbox(last - 1, loose=True)[2])


def _is_row(lines: Sequence[Sequence[_Cell]], number: int) -> bool:
    """Return whether a line has cells, one of which is in line with a cell above or below."""
    cells = lines[number]
    if not _has_cells(cells):
        return False
    return any(
        _has_cells(lines[near]) and _are_aligned(cells, lines[near])
        for near in range(max(0, number - _NEAR), min(len(lines), number + _NEAR + 1))
        if near != number
    )


def _has_cells(cells: Sequence[_Cell]) -> bool:
    return len(cells) > 2 or (len(cells) == 2 and not _MARKER.fullmatch(cells[0].text))


def _are_aligned(cells: Sequence[_Cell], others: Sequence[_Cell]) -> bool:
    return any(
        abs(one.left - other.left) <= _ALIGNED
        # The right edges of texts may be those of the page's margin.
        or (abs(one.right - other.right) <= _ALIGNED and _is_number(one) and _is_number(other))
        for one in cells[1:]
        for other in others[1:]
    )


def _is_number(cell: _Cell) -> bool:
    return len(cell.text) <= _LONGEST_NUMBER and any(char.isdecimal() for char in cell.text)


def _blocks(numbers: Sequence[int]) -> Iterator[list[int]]:
    """Yield the rows of each table."""
    block = [numbers[0]]
    for before, number in pairwise(numbers):
        if number - before > _NEAR:
            yield block
            block = []
        block.append(number)
    yield block


def _aligned(rows: Sequence[Sequence[_Cell]]) -> list[str]:
    """Return the lines of a table, with its empty cells if its columns are apart."""
    columns: list[tuple[float, float]] = []
    for left, right in sorted((cell.left, cell.right) for row in rows for cell in row):
        if columns and left < columns[-1][1]:
            columns[-1] = columns[-1][0], max(columns[-1][1], right)
        else:
            columns.append((left, right))
    lines = []
    for row in rows:
        cells = [""] * len(columns)
        for cell in row:
            column = next(number for number, (_, right) in enumerate(columns) if cell.right <= right)
            if cells[column]:
                return [SEPARATOR.join(cell.text for cell in row) for row in rows]
            cells[column] = cell.text
        lines.append(row_line(cells))
    return lines
