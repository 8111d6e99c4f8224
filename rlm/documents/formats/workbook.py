"""Reading of workbooks (XLSX, XLS, XLSB, ODS) with calamine: each sheet is a document, each row a line."""

from __future__ import annotations

import io
import itertools
import re
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import python_calamine as calamine

from rlm.documents.formats.cell_places import HIDDEN
from rlm.documents.formats.csv_lines import shown, table_lines
from rlm.documents.formats.office_xml import Archive, refuse_compound
from rlm.documents.formats.piece import Ended, Fault, Member, Piece, Problem, Text
from rlm.documents.formats.sheet_parts import Calc, Excel, SheetParts, has_old_notes

__all__ = ["read_workbook"]

_REMEDY = "open it in its program and save it again"
_NOTES = " (notes)"
"""Ends the name of the document that holds what stands beside the cells of a sheet."""
_OLD_NOTES = Problem("its comments and text boxes were not read", "save it as .xlsx")
_RAISED = {"PanicException", "OSError", "ValueError"}.union(
    name for name in dir(calamine) if name.endswith("Error")
)
"""The names of what calamine raises."""
_MOST_CELLS = 30_000_000
_MANIFEST = "META-INF/manifest.xml"
_INDENT = re.compile(rb">\s+<(?=/?(?:table|office):)")
_CONTENT = "content.xml"
_FAR_ROWS = Problem("rows far below its table were not read", "delete them, or export it as CSV")
_CHART_SHEET = calamine.SheetTypeEnum.ChartSheet


def read_workbook(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each sheet that is not empty as a member of kind `csv`, whose line n is the sheet's row n.

    Hidden sheets are read too, and named so. Formulas count with the values that they had when the workbook
    was saved. Problems name what was not read. Raises Fault for a workbook that is locked or empty.
    """
    refuse_compound(file, may_be_old=True)
    parts_of: Excel | Calc | None = None
    has_notes = False
    if file.read(2) == b"PK":
        archive = Archive(file, size)
        if "xl/workbook.xml" in archive:
            parts_of = Excel(archive)
        elif _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
            raise Fault("locked")
        elif _CONTENT in archive:
            parts_of = Calc(archive)
        has_notes = "xl/workbook.bin" in archive and any(
            _holds_notes(archive, one) for one in archive.names()
        )
    else:
        has_notes = has_old_notes(file)
    if has_notes:
        yield _OLD_NOTES
    file.seek(0)
    try:
        book = calamine.CalamineWorkbook.from_filelike(file)
    except calamine.PasswordError as error:
        raise Fault("locked") from error
    except calamine.CalamineError:
        if not isinstance(parts_of, Calc):
            raise
        content = _INDENT.sub(b"><", archive.read(_CONTENT))  # calamine refuses white space between cells
        book = calamine.CalamineWorkbook.from_filelike(_rewritten(archive, _CONTENT, content))
    is_empty = True
    for sheet in book.sheets_metadata:
        name = sheet.name + (HIDDEN if sheet.visible != calamine.SheetVisibleEnum.Visible else "")
        parts = parts_of.sheet(sheet.name) if parts_of else SheetParts()
        near, far = book, None
        is_vast = parts.height * parts.width > _MOST_CELLS
        changed = parts_of.near_rows(sheet.name) if is_vast and isinstance(parts_of, Excel) else None
        if changed is not None:
            near = calamine.CalamineWorkbook.from_filelike(_rewritten(archive, *changed))
            parts.height, far = 0, _FAR_ROWS
        values = _values(near, sheet.name, parts, name, far) if sheet.typ != _CHART_SHEET else ()
        for piece in itertools.chain(values, _beside(parts, name)):
            is_empty = False
            yield piece
    if is_empty:
        raise Fault("bare", "its sheets are empty")
    yield Ended()


def _rewritten(archive: Archive, part: str, changed: bytes) -> BinaryIO:
    """Return a workbook with one part changed."""
    made = io.BytesIO()
    with zipfile.ZipFile(made, "w") as copy:
        for name in archive.names():
            copy.writestr(name, changed if name == part else archive.read(name))
    made.seek(0)
    return made


def _holds_notes(archive: Archive, name: str) -> bool:
    """Return whether a part of an XLSB is one of comments or of text boxes."""
    return name.startswith("xl/comments") or (
        name.startswith("xl/drawings/drawing") and b":t>" in archive.read(name)
    )


def _beside(parts: SheetParts, name: str) -> Iterator[Piece]:
    """Yield what stands beside the cells of a sheet as a document of its own."""
    problems = list(parts.problems_beside())
    if parts.lines:
        yield Member(f"{name}{_NOTES}", "text")
        yield Text("".join(parts.lines))
        yield from problems
    elif problems:
        yield Member(f"{name}{_NOTES}", "text")
        yield Problem(f"without text, and {problems[0].what}", problems[0].remedy, "missing")


def _values(
    book: calamine.CalamineWorkbook, name: str, parts: SheetParts, document: str, far: Problem | None
) -> Iterator[Piece]:
    """Yield the pieces of a sheet, whose document has a name of its own. None for an empty one."""
    member = Member(document, "csv", "sheet")
    if parts.height * parts.width > _MOST_CELLS:
        yield member
        yield Problem(
            f"a sheet that spans {parts.height:,} rows and {parts.width:,} columns",
            "delete the cells that lie apart from its table, or export it as CSV",
            "missing",
        )
        return
    try:
        sheet = book.get_sheet_by_name(name)
    except BaseException as error:
        # calamine is written in Rust: a panic is no Exception.
        if isinstance(error, MemoryError) or type(error).__name__ not in _RAISED:
            raise
        yield member
        yield Problem("damaged", _REMEDY, "missing")
        return
    problems = [*parts.problems(), *([far] if far else [])]
    lines = _lines(sheet, parts)
    first = next(lines, None)
    if first is not None:
        yield member
        yield Text(first)
        yield from map(Text, lines)
        yield from problems
    elif problems:
        yield member
        yield Problem(f"without any value, and {problems[0].what}", problems[0].remedy, "missing")


def _lines(sheet: calamine.CalamineSheet, parts: SheetParts) -> Iterator[str]:
    """Yield the rows as lines. Empty rows count, unless nothing comes after them."""
    blank = 0
    for line in table_lines(_rows(sheet, parts)):
        if line == "\n":
            blank += 1
        else:
            yield "\n" * blank + line
            blank = 0


def _rows(sheet: calamine.CalamineSheet, parts: SheetParts) -> Iterator[Sequence[str]]:
    """Yield every row from the sheet's first, and every cell from its first column.

    A cell that is merged over several rows counts in each of them.
    """
    start = sheet.start
    if start is None:
        return
    _, left = start
    given: Iterator[list[Any]] = sheet.iter_rows()
    # It yields the empty rows above the first cell too, but not the empty columns.
    margin = [""] * left
    merged: dict[int, list[tuple[int, int]]] = {}
    for (first, column), (last, _) in sheet.merged_cell_ranges or ():
        if last > first:
            merged.setdefault(first, []).append((last, column))
    held: dict[int, tuple[int, str]] = {}
    for number, values in enumerate(given):
        row = [*margin, *map(shown, values)]
        for column in parts.percents.get(number, ()):
            if left <= column < len(row) and isinstance(value := values[column - left], int | float):
                row[column] = f"{value * 100:.12g}%"
        for column, (last, text) in list(held.items()):
            if number > last:
                del held[column]
            elif column < len(row) and not row[column]:
                row[column] = text
        for last, column in merged.get(number, ()):
            if column < len(row) and row[column]:
                held[column] = last, row[column]
        yield row
