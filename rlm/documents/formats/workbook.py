"""Reading of workbooks (ODS; XLSX, XLS, XLSB with calamine): each sheet is a document, each row a line."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, BinaryIO

import python_calamine as calamine

from rlm.documents.formats import calc
from rlm.documents.formats.cell_places import HIDDEN
from rlm.documents.formats.csv_lines import shown, table_lines
from rlm.documents.formats.flow import link_target
from rlm.documents.formats.office_xml import Archive, refuse_compound
from rlm.documents.formats.piece import Ended, Fault, Member, Piece, Problem, Text
from rlm.documents.formats.sheet_parts import MOST_CELLS, Excel, Row, SheetParts, has_old_notes

__all__ = ["read_workbook"]

_REMEDY = "open it in its program and save it again"
_NOTES = " (notes)"
"""Ends the name of the document that holds what stands beside the cells of a sheet."""
_OLD_NOTES = Problem("its comments and text boxes were not read", "save it as .xlsx")
_RAISED = {"PanicException", "OSError", "ValueError"}.union(
    name for name in dir(calamine) if name.endswith("Error")
)
"""The names of what calamine raises."""
_MANIFEST = "META-INF/manifest.xml"
_FAR_ROWS = Problem("rows far below its table were not read", "delete them, or export it as CSV")


def read_workbook(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each sheet that is not empty as a member of kind `csv`, whose line n is the sheet's row n.

    Hidden sheets are read too, and named so. Formulas count with the values that they had when the workbook
    was saved. Problems name what was not read. Raises Fault for a workbook that is locked or empty.
    """
    refuse_compound(file, may_be_old=True)
    archive = Archive(file, size) if file.read(2) == b"PK" else None
    if archive is not None and _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
        raise Fault("locked")
    is_calc = archive is not None and calc.CONTENT in archive
    is_empty, why, remedy = True, "its sheets are empty", ""
    for piece in _calc(archive) if archive is not None and is_calc else _excel(file, archive):
        is_empty = is_empty and not isinstance(piece, Member)
        if isinstance(piece, Problem) and is_empty:
            why, remedy = piece.what, piece.remedy
        yield piece
    if is_empty:
        raise Fault("bare", why, remedy)
    yield Ended()


def _calc(archive: Archive) -> Iterator[Piece]:
    for name, is_hidden, rows, parts in calc.sheets_of(archive):
        document = name + (HIDDEN if is_hidden else "")
        yield from _table(document, rows, ())
        yield from _beside(parts, document)


def _excel(file: BinaryIO, archive: Archive | None) -> Iterator[Piece]:
    excel = Excel(archive) if archive is not None and "xl/workbook.xml" in archive else None
    if has_old_notes(file) if archive is None else _has_binary_notes(archive):
        yield _OLD_NOTES
    file.seek(0)
    try:
        book = calamine.CalamineWorkbook.from_filelike(file)
    except calamine.PasswordError as error:
        raise Fault("locked") from error
    for sheet in book.sheets_metadata:
        is_hidden = sheet.visible != calamine.SheetVisibleEnum.Visible
        document = sheet.name + (HIDDEN if is_hidden else "")
        parts = excel.sheet(sheet.name) if excel else SheetParts()
        if sheet.typ != calamine.SheetTypeEnum.ChartSheet:
            yield from _values(book, sheet.name, parts, document, excel)
        yield from _beside(parts, document)
    if excel is not None and (names := excel.names()):
        yield Member("names", "text")
        yield Text(names)


def _has_binary_notes(archive: Archive) -> bool:
    """Return whether an XLSB holds comments or text boxes."""
    return "xl/workbook.bin" in archive and any(
        name.startswith("xl/comments")
        or (name.startswith("xl/drawings/drawing") and b":t>" in archive.read(name))
        for name in archive.names()
    )


def _values(
    book: calamine.CalamineWorkbook, name: str, parts: SheetParts, document: str, excel: Excel | None
) -> Iterator[Piece]:
    """Yield the pieces of a sheet, whose document has a name of its own. None for an empty one."""
    problems = [*parts.problems()]
    if parts.height * parts.width > MOST_CELLS:
        near = excel.without_far_rows(name) if excel is not None else None
        if near is None:
            yield Member(document, "csv", "sheet")
            what = f"a sheet that spans {parts.height:,} rows and {parts.width:,} columns"
            remedy = "delete the cells that lie apart from its table, or export it as CSV"
            yield Problem(what, remedy, "missing")
            return
        changed, has_values = near
        book = calamine.CalamineWorkbook.from_filelike(changed)
        problems += [_FAR_ROWS] * has_values
    try:
        sheet = book.get_sheet_by_name(name)
    except BaseException as error:
        # calamine is written in Rust: a panic is no Exception.
        if isinstance(error, MemoryError) or type(error).__name__ not in _RAISED:
            raise
        yield Member(document, "csv", "sheet")
        yield Problem("damaged", _REMEDY, "missing")
        return
    yield from _table(document, _rows(sheet, parts), problems)


def _table(document: str, rows: Iterator[Row], problems: Iterable[Problem]) -> Iterator[Piece]:
    """Yield a document with a line for each row, and its problems. Empty rows count, unless nothing comes
    after them."""
    is_begun, blank = False, 0
    for line in table_lines(_filled_down(rows)):
        if line == "\n":
            blank += 1
            continue
        if not is_begun:
            yield Member(document, "csv", "sheet")
            is_begun = True
        yield Text("\n" * blank + line)
        blank = 0
    for problem in problems:
        if is_begun:
            yield problem
        else:
            yield Member(document, "csv", "sheet")
            yield Problem(f"without any value, and {problem.what}", problem.remedy, "missing")
            return


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


def _filled_down(rows: Iterator[Row]) -> Iterator[list[str]]:
    """Yield the rows. A cell that is merged over several of them counts in each."""
    held: dict[int, tuple[int, str]] = {}
    for row, merged in rows:
        for column, (below, text) in list(held.items()):
            if column < len(row) and not row[column]:
                row[column] = text
            del held[column]
            if below > 1:
                held[column] = below - 1, text
        held |= {column: (below, row[column]) for column, below in merged.items() if row[column : column + 1]}
        yield row


def _rows(sheet: calamine.CalamineSheet, parts: SheetParts) -> Iterator[Row]:
    """Yield every row from the sheet's first, and every cell from its first column."""
    start = sheet.start
    if start is None:
        return
    _, left = start
    given: Iterator[list[Any]] = sheet.iter_rows()
    # It yields the empty rows above the first cell too, but not the empty columns.
    margin = [""] * left
    merged: dict[int, dict[int, int]] = {}
    for (first, column), (last, _) in sheet.merged_cell_ranges or ():
        if last > first:
            merged.setdefault(first, {})[column] = last - first
    for number, values in enumerate(given):
        row = [*margin, *map(shown, values)]
        for column in parts.percents.get(number, ()):
            if left <= column < len(row) and isinstance(value := values[column - left], int | float):
                row[column] = f"{value * 100:.12g}%"
        for column, error in parts.errors.get(number, {}).items():
            if column < len(row):
                row[column] = error
        for column, target in parts.links.get(number, {}).items():
            if column < len(row):
                row[column] += link_target(target, row[column])
        yield row, merged.get(number, {})
