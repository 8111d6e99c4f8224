"""Tables of HTML and Word as rows: each row on one line, its cells separated by ` | `."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

from rlm.documents.formats.tables.csv_lines import LINE_END

__all__ = [
    "LONGEST_CELL",
    "SEPARATOR",
    "cell_of_lines",
    "layout_tables",
    "row_line",
    "table_lines",
    "table_rows",
]

SEPARATOR = " | "
LONGEST_CELL = 1_000
"""Characters. A longer cell is a part of a page, not of a table."""
_MOST_SPANNED = 100
_PARTS_OF_PAGES = "table table, table h1, table h2, table h3, table h4, table h5, table h6, table pre"


def row_line(cells: list[str]) -> str:
    """Return a row as a line, without the empty cells at its end."""
    while cells and not cells[-1]:
        cells = cells[:-1]
    return SEPARATOR.join(cells)


def layout_tables(tree: Any) -> set[int]:
    """Return the tables, by `mem_id`, that lay out a page: they hold tables, headings or long texts."""
    layout: set[int] = set()
    if tree.css_first("table") is None:
        return layout
    for part in tree.css(_PARTS_OF_PAGES):
        table = _table_above(part)
        while table is not None and table.mem_id not in layout:
            layout.add(table.mem_id)
            table = _table_above(table)
    for cell in tree.css("td, th"):
        table = _table_above(cell)
        if table is None or table.mem_id in layout:
            continue
        if len(cell.text()) > LONGEST_CELL:
            layout.add(table.mem_id)
    return layout


def _table_above(node: Any) -> Any:
    node = node.parent
    while node is not None and node.tag != "table":
        node = node.parent
    return node


def table_rows(table: Any, lines_of: Callable[[Any], list[str]]) -> Iterator[str]:
    """Yield a table that is no layout: its caption, then each row as a line. `lines_of` returns the lines of
    a cell. A cell that spans several rows counts in each of them."""
    held: dict[int, tuple[int, str]] = {}
    rows: list[list[str]] = []
    has_header = False
    for part in table.css("caption, tr"):
        if part.tag == "caption":
            yield " ".join(lines_of(part))
            continue
        row: list[str] = []
        cell = part.child
        while cell is not None:
            if cell.tag in ("td", "th"):
                _take_held(row, held)
                text = cell_of_lines(lines_of(cell))
                if (spanned := _span(cell, "rowspan")) > 1:
                    held[len(row)] = spanned - 1, text
                row += [text] + [""] * (_span(cell, "colspan") - 1)
            cell = cell.next
        _take_held(row, held)
        has_header = has_header or (not rows and part.css_first("th") is not None)
        rows.append(row)
    yield from table_lines(rows, has_header=has_header)


def cell_of_lines(lines: list[str]) -> str:
    """Return the lines of a cell as one."""
    return f" {LINE_END} ".join(stripped for line in lines if (stripped := line.strip()))


def table_lines(rows: list[list[str]], *, has_header: bool) -> Iterator[str]:
    """Yield each row as a line. A table whose first row is a header is written as Markdown writes one, with
    bars around its rows and a rule below the header: its rows can be read as records."""
    width = len(rows[0]) if has_header and rows and len(rows[0]) > 1 else 0
    for at, row in enumerate(rows):
        yield _bars([*row, *[""] * (width - len(row))]) if width else row_line(row)
        if width and not at:
            yield _bars(["---"] * width)


def _bars(cells: list[str]) -> str:
    return f"| {SEPARATOR.join(cells)} |"


def _take_held(row: list[str], held: dict[int, tuple[int, str]]) -> None:
    """Add the cells of rows above that reach into this one, up to the next free column."""
    while len(row) in held:
        column = len(row)
        rows, text = held.pop(column)
        if rows > 1:
            held[column] = rows - 1, text
        row.append(text)


def _span(cell: Any, name: str) -> int:
    given = (cell.attributes.get(name) or "1").strip()[:6]
    return min(max(1, int(given)), _MOST_SPANNED if name == "colspan" else 10_000) if given.isdecimal() else 1
