"""Names places in workbooks and databases as their programs do: `Sheet1!A12:D12`, `table users, row 7`."""

from __future__ import annotations

import re

from rlm.sandbox.text.body import Body, Document, Span

__all__ = ["HIDDEN", "cell_place", "column_letters"]

HIDDEN = " (hidden)"
"""Ends the name of a document that is a hidden sheet."""

_LONGEST_LINE = 1 << 20
_CELL = re.compile(r'(?:"(?:[^"]|"")*"|[^,\n]*)(?:,|$)', re.M)
_PLAIN_NAME = re.compile(r"[^\W\d]\w*")


def cell_place(body: Body, document: Document, span: Span) -> str | None:
    """Return the place of a span in a sheet or table, or None if the document is none.

    The line of a sheet is its row. A table has its header on the first line, so its row 1 is line 2.
    """
    if not document.place:
        return None
    file, _, name = document.name.rpartition("/")
    top = body.line_of(document.start)
    first, last = body.line_of(span.start) - top + 1, body.line_of(max(span.start, span.end - 1)) - top + 1
    if document.place == "table":
        return f"{document.name}, {_rows(first, last)}"
    if document.place == "member table":
        return f"{file}, table {name}, {_rows(first, last)}"
    columns = _columns(body, span, is_one_row=first == last)
    sheet = name.removesuffix(HIDDEN)
    if not _PLAIN_NAME.fullmatch(sheet):
        sheet = "'" + sheet.replace("'", "''") + "'"
    start, end = f"{column_letters(columns[0])}{first}", f"{column_letters(columns[1])}{last}"
    cells = start if start == end else f"{start}:{end}"
    return f"{file}, {sheet}!{cells}" + (" (hidden sheet)" if name.endswith(HIDDEN) else "")


def _rows(first: int, last: int) -> str:
    if last == 1:
        return "header"
    first = max(first, 2)
    return f"row {first - 1:,}" if first == last else f"rows {first - 1:,} to {last - 1:,}"


def _columns(body: Body, span: Span, *, is_one_row: bool) -> tuple[int, int]:
    """Return the first and the last column of a span, from 0: the filled cells that it touches."""
    start, end = body.line_start(body.line_of(span.start)), span.end
    text = body.text(start, min(end + _LONGEST_LINE, body.chars)).partition("\n")[0]
    low, high = span.start - start, (end - start if is_one_row else len(text))
    filled: list[int] = []
    touched: list[int] = []
    for column, cell in enumerate(_CELL.finditer(text)):
        if cell.end() > cell.start() and cell[0] != ",":
            filled.append(column)
            if cell.start() < high and cell.end() - cell[0].endswith(",") > low:
                touched.append(column)
        if cell.end() == len(text):
            break
    columns = touched or filled or [0]
    return columns[0], columns[-1]


def column_letters(column: int) -> str:
    """Return the name of a column: 0 is A, 26 is AA."""
    letters = ""
    column += 1
    while column:
        column, letter = divmod(column - 1, 26)
        letters = chr(65 + letter) + letters
    return letters
