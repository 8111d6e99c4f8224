"""Writing of a table as CSV with one line for each row, so that the number of a line is that of its row."""

from __future__ import annotations

import datetime
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

__all__ = ["LINE_END", "csv_line", "listed", "shown", "table_lines"]

LINE_END = "¶"
"""Stands for a line end within a cell: a row must stay on its line, and a reader must see the line end. A
quote that has a blank or a line end instead is found too (`text_folding`).
"""

_LINE_ENDS = re.compile(r"[ \t]*(?:\r\n|[\n\r\x0b\x0c\x85\u2028\u2029])[\s]*")
_UNSEEN = re.compile("[\x00-\x08\x0e-\x1f\x7f\ufeff\ufffe\uffff]")
_TEXT_BYTES = 1 << 20
_LISTED = 10
_LOOKED_AT = 100
_SHARE = 0.6
_DELIMITERS = re.compile(r"[,;\t|]")


def shown(value: Any) -> str:
    """Return the value of a cell on one line, as its program shows it. Dates are in ISO 8601."""
    if type(value) is str and value.isprintable() and "_x" not in value:
        return value.strip()
    match value:
        case str():
            text = value
        case None:
            return ""
        case bool():
            return "TRUE" if value else "FALSE"
        case int():
            return str(value)
        case float():
            # 15 digits, as spreadsheets show: 0.1 + 0.2 is 0.3.
            return str(int(value)) if value.is_integer() and abs(value) < 1e15 else f"{value:.15g}"
        case datetime.datetime():
            return value.isoformat(" ")
        case datetime.timedelta():
            return _duration(value)
        case bytes() | bytearray() | memoryview():
            text = _decoded(bytes(value))
        case _:
            text = str(value)
    text = text.replace("_x000D_", "") if "_x000D_" in text else text
    if text.isprintable():
        return text.strip()
    return _UNSEEN.sub("", _LINE_ENDS.sub(f" {LINE_END} ", text.strip()).replace("\t", " "))


def _duration(value: datetime.timedelta) -> str:
    seconds = int(abs(value).total_seconds())
    sign = "-" if value < datetime.timedelta() else ""
    return f"{sign}{seconds // 3600}:{seconds // 60 % 60:02}:{seconds % 60:02}"


def _decoded(data: bytes) -> str:
    """Return the text that a cell of bytes holds, or how many there are."""
    if len(data) <= _TEXT_BYTES:
        try:
            text = data.decode()
        except UnicodeDecodeError:
            pass
        else:
            if not _UNSEEN.search(text):
                return text
    return f"({len(data)} bytes)"


def csv_line(cells: Iterable[str], *, is_head: bool = False) -> str:
    """Return a row as a line. A cell is quoted only where CSV cannot do without: a quote in a cell stays as
    it is. The head of a table, by which readers choose the delimiter, holds no other delimiter unquoted."""
    cells = list(cells)
    plain = ",".join(cells)
    if plain and not is_head and '"' not in plain and plain.count(",") == len(cells) - 1:
        return f"{plain}\n"
    line = ",".join(_quoted(cell) if _needs_quotes(cell, is_head) else cell for cell in cells)
    # An empty line would be no row.
    return f"{line or _quoted('')}\n"


def _needs_quotes(cell: str, is_head: bool) -> bool:
    return cell.startswith('"') or "," in cell or (is_head and _DELIMITERS.search(cell) is not None)


def _quoted(cell: str) -> str:
    return '"' + cell.replace('"', '""') + '"'


def listed(names: Sequence[str]) -> str:
    """Return the first names, and the number of the others."""
    more = f" and {len(names) - _LISTED:,} more" if len(names) > _LISTED else ""
    return ", ".join(names[:_LISTED]) + more


def table_lines(rows: Iterator[Sequence[str]]) -> Iterator[str]:
    """Yield a line for each row, an empty one for an empty row.

    Rows above the header (titles, notes) become a line of one cell each. Rows below it are as wide as the
    header at least, so that rows whose last cells are empty are no broken CSV.
    """
    first: list[Sequence[str]] = []
    filled = 0
    for row in rows:
        first.append(row)
        filled += any(row)
        if filled == _LOOKED_AT:
            break
    header = _header(first)
    width = _width(first[header]) if first else 0
    for row in first[:header]:
        yield _title(row)
    for number, row in enumerate(first[header:]):
        yield _row(row, width, is_head=number == 0)
    for row in rows:
        yield _row(row, width)


def _title(row: Sequence[str]) -> str:
    filled = [number for number, cell in enumerate(row) if cell]
    if not filled:
        return "\n"
    return csv_line([*[""] * filled[0], " | ".join(row[number] for number in filled)], is_head=True)


def _row(row: Sequence[str], width: int, *, is_head: bool = False) -> str:
    own = _width(row)
    if not own:
        return "\n"
    return csv_line([*row[:own], *[""] * (width - own)], is_head=is_head)


def _width(row: Sequence[str]) -> int:
    """Return the number of the last cell that is not empty."""
    return next((number for number in range(len(row), 0, -1) if row[number - 1]), 0)


def _header(rows: Sequence[Sequence[str]]) -> int:
    """Return the index of the header: the first row that is about as full as the rows of the table."""
    fills = [sum(map(bool, row)) for row in rows]
    times = Counter(fills)
    usual = max((count for count in times if times[count] > 1), default=0)
    if usual < 2:
        usual = max(fills, default=0)
    wanted = max(2 if usual > 1 else 1, _SHARE * usual)
    return next((number for number, fill in enumerate(fills) if fill >= wanted), 0)
