"""Reading of workbooks (XLSX, XLS, XLSB, ODS) with calamine: each sheet is a document, each row a line."""

from __future__ import annotations

import codecs
import io
import itertools
import zipfile
from collections.abc import Iterator, Sequence
from typing import Any, BinaryIO

import python_calamine as calamine

from rlm.documents.formats.archive import Archive, refuse_encrypted
from rlm.documents.formats.piece import Ended, Member, Note, Piece, Text, Unread, Unreadable
from rlm.documents.formats.tables.cell_places import HIDDEN
from rlm.documents.formats.tables.csv_lines import shown, table_lines
from rlm.documents.formats.tables.sheet_notes import NOTES, SheetNotes, calc_notes, has_old_notes
from rlm.documents.formats.tables.xlsx_facts import SheetFacts, XlsxFacts

__all__ = ["prepare", "read_workbook"]

_WHAT = "a workbook"
_REMEDY = "open it in its program and save it again"
_FLUSH = 256 * 1024
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
    facts: XlsxFacts | None = None
    beside: dict[str, SheetNotes] = {}
    if file.read(2) == _ZIP:
        archive = Archive(file, size, _WHAT)
        if "xl/workbook.xml" in archive:
            facts = XlsxFacts(archive)
        elif _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
            raise Unreadable("a workbook protected by a password", "save a copy without one")
        elif "content.xml" in archive:
            beside = calc_notes(archive)
        elif "xl/workbook.bin" in archive:
            yield from map(Note, _binary_notes(archive))
    file.seek(0)
    book = _opened(file)
    if facts is None and has_old_notes(file):
        yield Note("its comments and text boxes were not read: save it as .xlsx")
    if facts is not None:
        yield from map(Note, facts.notes())
    is_empty = True
    for sheet in book.sheets_metadata:
        own = facts.sheet(sheet.name) if facts is not None else SheetFacts()
        name = sheet.name + (HIDDEN if sheet.visible != calamine.SheetVisibleEnum.Visible else "")
        pieces = _sheet(book, sheet.name, own, name) if sheet.typ != _CHART_SHEET else iter(())
        notes = facts.beside(sheet.name) if facts is not None else beside.pop(sheet.name, SheetNotes())
        for piece in itertools.chain(pieces, _beside(notes, name)):
            is_empty = False
            yield piece
    for notes in beside.values():
        yield from _beside(notes, "workbook")
    if is_empty:
        raise Unreadable("a workbook whose sheets are empty", "name a file that holds text")
    yield Ended()


def _beside(notes: SheetNotes, name: str) -> Iterator[Piece]:
    """Yield what stands beside the cells of a sheet as a document of its own."""
    told = list(notes.notes())
    if notes.lines or told:
        yield Member(f"{name}{NOTES}", "text")
    if notes.lines:
        yield Text("".join(notes.lines))
        yield from map(Note, told)
    elif told:
        reason, _, remedy = told[0].rpartition(": ")
        yield Unread(f"without text, and {reason}", remedy)


def _binary_notes(archive: Archive) -> Iterator[str]:
    """Yield a note if an XLSB holds comments or text boxes."""
    if any(
        name.startswith("xl/comments")
        or (name.startswith("xl/drawings/drawing") and b":t>" in archive.read(name))
        for name in archive.names()
    ):
        yield "its comments and text boxes were not read: save it as .xlsx"


def _opened(file: BinaryIO) -> calamine.CalamineWorkbook:
    try:
        return calamine.CalamineWorkbook.from_filelike(file)
    except calamine.PasswordError as error:
        raise Unreadable(
            "a workbook that is encrypted (protected by a password)", "save a copy without one"
        ) from error
    except (calamine.CalamineError, OSError, ValueError) as error:
        raise Unreadable("a workbook that cannot be opened (damaged or truncated)", _REMEDY) from error
    except BaseException as error:
        raise _unless_panic(error) from error


def _unless_panic(error: BaseException) -> BaseException:
    """Return what to raise for an error: a fault of the workbook, if the library panicked over it."""
    if type(error).__name__ != "PanicException":
        return error
    return Unreadable("a workbook that its reader cannot understand (damaged?)", _REMEDY)


def _sheet(book: calamine.CalamineWorkbook, name: str, facts: SheetFacts, document: str) -> Iterator[Piece]:
    """Yield the pieces of a sheet, whose document has a name of its own. None for an empty one."""
    member = Member(document, "csv")
    if facts.cells > _MOST_CELLS:
        yield member
        yield Unread(
            f"a sheet that spans {facts.height:,} rows and {facts.width:,} columns",
            "delete the cells that lie apart from its table, or export it as CSV",
        )
        return
    try:
        sheet = book.get_sheet_by_name(name)
    except (calamine.CalamineError, OSError, ValueError):
        yield member
        yield Unread("damaged", _REMEDY)
        return
    except BaseException as error:
        raise _unless_panic(error) from error
    blank, size, waiting = 0, 0, list[str]()
    is_begun = False
    for line in table_lines(_rows(sheet, facts)):
        if line == "\n":
            # Empty rows count, unless nothing comes after them.
            blank += 1
            continue
        if not is_begun:
            yield member
            is_begun = True
        waiting.append("\n" * blank + line)
        size += len(waiting[-1])
        blank = 0
        if size > _FLUSH:
            yield Text("".join(waiting))
            waiting.clear()
            size = 0
    if waiting:
        yield Text("".join(waiting))
    if is_begun:
        yield from map(Note, facts.notes())
    elif facts.notes():
        yield member
        yield Unread("without any value", facts.notes()[0])


def _rows(sheet: calamine.CalamineSheet, facts: SheetFacts) -> Iterator[Sequence[str]]:
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
        for column in facts.percents.get(number, ()):
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
