"""Reading of workbooks (XLSX, XLS, XLSB, ODS) with calamine: each sheet is a document, each row a line."""

from __future__ import annotations

import codecs
import io
import itertools
import zipfile
from collections.abc import Callable, Iterator, Sequence
from typing import Any, BinaryIO, TypeVar

import python_calamine as calamine

from rlm.documents.formats.archive import Archive, refuse_encrypted
from rlm.documents.formats.piece import Ended, Member, Note, Piece, Text, Unread, Unreadable
from rlm.documents.formats.tables.cell_places import HIDDEN
from rlm.documents.formats.tables.csv_lines import shown, table_lines
from rlm.documents.formats.tables.sheet_parts import Excel, SheetParts, calc_sheets, has_old_notes

__all__ = ["prepare", "read_workbook"]

_T = TypeVar("_T")

_WHAT = "a workbook"
_REMEDY = "open it in its program and save it again"
_NOTES = " (notes)"
"""Ends the name of the document that holds what stands beside the cells of a sheet."""
_OLD_NOTES = "its comments and text boxes were not read: save it as .xlsx"
_MOST_CELLS = 30_000_000
_ZIP = b"PK"
_MANIFEST = "META-INF/manifest.xml"
_CHART_SHEET = calamine.SheetTypeEnum.ChartSheet
_OFFICE = "http://schemas.openxmlformats.org"
_RELATIONS = f"{_OFFICE}/officeDocument/2006/relationships"
_RELATION = (
    f'<Relationships xmlns="{_OFFICE}/package/2006/relationships">'
    f'<Relationship Id="r" Type="{_RELATIONS}/%s" Target="%s"/></Relationships>'
)
_SAMPLE = {
    "_rels/.rels": _RELATION % ("officeDocument", "xl/workbook.xml"),
    "xl/workbook.xml": f'<workbook xmlns="{_OFFICE}/spreadsheetml/2006/main" xmlns:r="{_RELATIONS}">'
    '<sheets><sheet name="a" sheetId="1" r:id="r"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": _RELATION % ("worksheet", "worksheets/a.xml"),
    "xl/worksheets/a.xml": f'<worksheet xmlns="{_OFFICE}/spreadsheetml/2006/main"><sheetData><row r="1">'
    '<c r="A1"><v>1.5</v></c></row></sheetData></worksheet>',
}


def prepare() -> None:
    """Import what reading needs: later nothing can be opened."""
    for encoding in ("utf_16_le", "latin_1", "cp1252"):
        codecs.lookup(encoding)  # for the names in OLE files
    sample = io.BytesIO()
    with zipfile.ZipFile(sample, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _SAMPLE.items():
            archive.writestr(name, text)
    size = sample.tell()
    sample.seek(0)
    list(read_workbook(sample, size))


def read_workbook(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each sheet that is not empty as a member of kind `csv`, whose line n is the sheet's row n.

    Hidden sheets are read too, and named so. Formulas count with the values that they had when the workbook
    was saved. Notes name what was not read. Raises Unreadable for a workbook that is damaged, encrypted or
    empty.
    """
    refuse_encrypted(file, _WHAT)
    excel: Excel | None = None
    apart: dict[str, SheetParts] = {}
    if file.read(2) == _ZIP:
        archive = Archive(file, size, _WHAT)
        if "xl/workbook.xml" in archive:
            excel = Excel(archive)
        elif _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
            raise Unreadable("a workbook protected by a password", "save a copy without one")
        elif "content.xml" in archive:
            apart = calc_sheets(archive)
        elif "xl/workbook.bin" in archive and any(_holds_notes(archive, name) for name in archive.names()):
            yield Note(_OLD_NOTES)
    elif has_old_notes(file):
        yield Note(_OLD_NOTES)
    file.seek(0)
    book = _guarded(lambda: calamine.CalamineWorkbook.from_filelike(file))
    is_empty = True
    for sheet in book.sheets_metadata:
        name = sheet.name + (HIDDEN if sheet.visible != calamine.SheetVisibleEnum.Visible else "")
        parts = excel.sheet(sheet.name) if excel else apart.pop(sheet.name, SheetParts())
        values = _values(book, sheet.name, parts, name) if sheet.typ != _CHART_SHEET else ()
        for piece in itertools.chain(values, _beside(parts, name)):
            is_empty = False
            yield piece
    for parts in apart.values():
        yield from _beside(parts, "workbook")
    if is_empty:
        raise Unreadable("a workbook whose sheets are empty", "name a file that holds text")
    yield Ended()


def _holds_notes(archive: Archive, name: str) -> bool:
    """Return whether a part of an XLSB is one of comments or of text boxes."""
    return name.startswith("xl/comments") or (
        name.startswith("xl/drawings/drawing") and b":t>" in archive.read(name)
    )


def _guarded(read: Callable[[], _T]) -> _T:
    """Return what calamine reads. Raises Unreadable."""
    try:
        return read()
    except calamine.PasswordError as error:
        raise Unreadable(
            "a workbook that is encrypted (protected by a password)", "save a copy without one"
        ) from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Unreadable("a workbook that cannot be opened (damaged or truncated)", _REMEDY) from error
    except BaseException as error:
        if type(error).__name__ != "PanicException":
            raise
        raise Unreadable("a workbook that its reader cannot understand (damaged?)", _REMEDY) from error


def _beside(parts: SheetParts, name: str) -> Iterator[Piece]:
    """Yield what stands beside the cells of a sheet as a document of its own."""
    notes = list(parts.notes_beside())
    if parts.lines:
        yield Member(f"{name}{_NOTES}", "text")
        yield Text("".join(parts.lines))
        yield from map(Note, notes)
    elif notes:
        reason, _, remedy = notes[0].rpartition(": ")
        yield Member(f"{name}{_NOTES}", "text")
        yield Unread(f"without text, and {reason}", remedy)


def _values(book: calamine.CalamineWorkbook, name: str, parts: SheetParts, document: str) -> Iterator[Piece]:
    """Yield the pieces of a sheet, whose document has a name of its own. None for an empty one."""
    member = Member(document, "csv")
    if parts.height * parts.width > _MOST_CELLS:
        yield member
        yield Unread(
            f"a sheet that spans {parts.height:,} rows and {parts.width:,} columns",
            "delete the cells that lie apart from its table, or export it as CSV",
        )
        return
    try:
        sheet = _guarded(lambda: book.get_sheet_by_name(name))
    except Unreadable:
        yield member
        yield Unread("damaged", _REMEDY)
        return
    notes = list(parts.notes())
    lines = _lines(sheet, parts)
    first = next(lines, None)
    if first is not None:
        yield member
        yield Text(first)
        yield from map(Text, lines)
        yield from map(Note, notes)
    elif notes:
        yield member
        yield Unread("without any value", notes[0])


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
