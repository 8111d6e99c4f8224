"""What calamine does not tell of the sheets of a workbook: percents, formulas without a value, the extent;
and what stands beside the cells: comments, text boxes, titles of charts, headers and footers."""

from __future__ import annotations

import html
import re
import struct
from collections.abc import Iterable, Iterator
from dataclasses import field
from typing import BinaryIO

import olefile

from rlm.documents.formats.cell_places import column_letters
from rlm.documents.formats.office_xml import (
    Archive,
    Element,
    attribute,
    chart_titles,
    children,
    drawn_paragraphs,
    find,
    local_name,
    number,
    unread_pictures,
)
from rlm.documents.formats.piece import Problem
from rlm.lazy_dataclass import dataclass

__all__ = ["Calc", "Excel", "SheetParts", "has_old_notes"]

_WORKBOOK, _STYLES = "xl/workbook.xml", "xl/styles.xml"
_SAVE = "open the workbook in its program and save it again"
_LARGEST_SCANNED = 256 << 20
_LARGEST_CALC = 64 << 20
"""Bytes of an ODS content that is looked through for comments."""
_HEAD = 4096
_PERCENT_IDS = ("9", "10")
"""The built-in number formats `0%` and `0.00%`."""
_QUOTED = re.compile(r'"[^"]*"|\\.')
_DIMENSION = re.compile(rb'<(?:\w+:)?dimension\s[^>]{0,200}?ref="[A-Z]{1,3}\d{1,7}:([A-Z]{1,3})(\d{1,7})"')
_DIMENSION_TAG = re.compile(rb"<(?:\w+:)?dimension\s[^>]{0,200}/>")
_ROW = re.compile(rb'<row\b[^>]{0,500}?\br="(\d{1,7})"')
_FAR = 10_000
"""Empty rows above a row that belongs to no table."""
_LARGEST_SPARSE = 16 << 20
_COMPUTED = re.compile(rb"(?:</f>|<f [^>]{0,1000}/>)<v>[^<]")
_NO_VALUE = re.compile(
    rb"<c\b(?P<attributes>[^>]{0,200})><f\b(?:[^>]{0,1000}/>|[^>]{0,1000}>[^<]{0,20000}</f>)"
    rb"(?P<value><v\s*/>|<v></v>)?</c>"
)
_CELL = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|\d+|[A-Za-z+-])')
_MARGIN = re.compile(rb"<(?:\w+:)?\w+(Header|Footer)\b[^>]{0,200}>([^<]{1,2000})<")
_THREADED = "[Threaded comment]"
_MAX_ROW = 1 << 21
_RECORD = struct.Struct("<HH")
_OLD_NOTES = (0x1C, 0x1B6)
"""The records of a comment and of the text of a shape."""


@dataclass(slots=True)
class SheetParts:
    """What a sheet holds besides its values. `percents` holds the columns of cells that are shown as percent,
    by row; rows and columns count from 0. `lines` stand beside the cells, each with its cell or its kind."""

    height: int = 0
    width: int = 0
    percents: dict[int, list[int]] = field(default_factory=dict)
    uncomputed: int = 0
    first_uncomputed: str = ""
    is_stale: bool = False
    lines: list[str] = field(default_factory=list)
    pictures: int = 0
    is_damaged: bool = False

    def add(self, where: str, text: str, author: str = "") -> None:
        """Add `where, author: text` on a line."""
        if words := " ".join(text.split()):
            self.lines.append(f"{where}, {author}: {words}\n" if author else f"{where}: {words}\n")

    def problems(self) -> Iterator[Problem]:
        """Yield what the user must know of the values."""
        if self.uncomputed:
            formulas = "formula has" if self.uncomputed == 1 else "formulas have"
            first = f"(the first is {self.first_uncomputed})"
            yield Problem(f"{self.uncomputed:,} {formulas} no computed value {first}", _SAVE)
        if self.is_stale:
            what = "its formulas are to be computed anew when it is opened, so their values may be old or 0"
            yield Problem(what, _SAVE)

    def problems_beside(self) -> Iterator[Problem]:
        """Yield what the user must know of what stands beside the cells."""
        if self.is_damaged:
            yield Problem("its comments or drawings are damaged and were not read", _SAVE)
        yield from unread_pictures([""] * self.pictures)


class Excel:
    """The sheets of an XLSX, by name. What is missing or unusual is left out: calamine decides whether the
    workbook can be read."""

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        self._links = archive.links(_WORKBOOK)
        self._parts: dict[str, str] = {}
        self._is_stale = False
        for element in archive.xml(_WORKBOOK).iter():
            if local_name(element) == "sheet":
                link = self._links.get(attribute(element, "id"))
                self._parts[attribute(element, "name")] = link.target if link else ""
            elif local_name(element) == "calcPr":
                self._is_stale = attribute(element, "fullCalcOnLoad") in ("1", "true")
        styles = b"|".join(str(one).encode() for one in self._percent_styles())
        self._percent = (
            re.compile(rb'<c\b(?=[^>]{0,200}\bs="(?:%b)")[^>]{0,200}>' % styles) if styles else None
        )

    def sheet(self, name: str) -> SheetParts:
        """Return what a sheet holds besides its values. Its part is read once."""
        found = SheetParts()
        part = self._parts.get(name, "")
        if part not in self._archive:
            return found
        try:
            data = self._archive.read(part) if self._archive.size(part) <= _LARGEST_SCANNED else b""
            self._scan(found, data)
            self._look_beside(found, part)
            _add_margins(found, data)
        except Exception:  # whatever a library raises
            found.is_damaged = True
        return found

    def near_rows(self, name: str) -> tuple[str, bytes] | None:
        """Return the part of a sheet without the rows that lie far below its others, or None if it has none
        or holds too many cells to look."""
        part = self._parts.get(name, "")
        if part not in self._archive or self._archive.size(part) > _LARGEST_SPARSE:
            return None
        data = self._archive.read(part)
        last = 0
        for row in _ROW.finditer(data):
            if int(row[1]) > last + _FAR:
                end = data.find(b"</sheetData>", row.start())
                kept = data[: row.start()] + data[end:] if last and end >= 0 else b""
                return (part, _DIMENSION_TAG.sub(b"", kept, count=1)) if kept else None
            last = int(row[1])
        return None

    def _percent_styles(self) -> Iterator[int]:
        """Yield the numbers of the styles of cells that show a percent."""
        if _STYLES not in self._archive:
            return
        root = self._archive.xml(_STYLES)
        formats = {
            attribute(one, "numFmtId")
            for one in children(find(root, "numFmts"), "numFmt")
            if "%" in _QUOTED.sub("", attribute(one, "formatCode"))
        }
        for at, style in enumerate(find(root, "cellXfs") or ()):
            if attribute(style, "numFmtId") in (*_PERCENT_IDS, *formats):
                yield at

    def _scan(self, found: SheetParts, data: bytes) -> None:
        """Find the extent, percents and formulas without a value."""
        if extent := _DIMENSION.search(data, 0, _HEAD):
            found.width, found.height = _column(extent[1]) + 1, int(extent[2])
        for cell in self._percent.finditer(data) if self._percent else ():
            if place := _CELL.search(cell[0]):
                found.percents.setdefault(int(place[2]) - 1, []).append(_column(place[1]))
        for cell in _NO_VALUE.finditer(data):
            # A formula whose text is empty has a value: it is empty.
            if cell["value"] and b't="str"' in cell["attributes"]:
                continue
            if not found.uncomputed and (place := _CELL.search(cell["attributes"])):
                found.first_uncomputed = (place[1] + place[2]).decode()
            found.uncomputed += 1
        found.is_stale = self._is_stale and _COMPUTED.search(data) is not None

    def _look_beside(self, found: SheetParts, part: str) -> None:
        links = self._archive.links(part).values()
        threaded = set[str]()
        for link in links:
            if link.kind == "threadedComment":
                people = self._people()
                for one in self._archive.xml(link.target):
                    threaded.add(attribute(one, "ref"))
                    author = people.get(attribute(one, "personId"), "")
                    found.add(attribute(one, "ref"), _words(find(one, "text")), author)
        for link in links:
            if link.kind == "comments":
                _add_comments(found, self._archive.xml(link.target), threaded)
            elif link.kind == "drawing":
                self._add_drawing(found, link.target)

    def _people(self) -> dict[str, str]:
        return {
            attribute(person, "id"): attribute(person, "displayName")
            for link in self._links.values()
            if link.kind == "person" and link.target in self._archive
            for person in self._archive.xml(link.target)
        }

    def _add_drawing(self, found: SheetParts, name: str) -> None:
        links = self._archive.links(name)
        for element in self._archive.xml(name).iter():
            match local_name(element):
                case "txBody":
                    found.add("Text box", drawn_paragraphs(element))
                case "blip":
                    found.pictures += 1
                case "chart":
                    link = links.get(attribute(element, "id"))
                    if link is not None and link.target in self._archive:
                        for title in chart_titles(self._archive.xml(link.target)):
                            found.add("Chart", title)


def _words(element: Element | None) -> str:
    """Return the words of a comment, without its readings (phonetic hints)."""
    if element is None:
        return ""
    own = element.text or ""
    return own + "".join(one.text or "" for one in element.iter() if local_name(one) == "t")


def _add_comments(found: SheetParts, root: Element, threaded: set[str]) -> None:
    authors = [one.text or "" for one in children(find(root, "authors"), "author")]
    for comment in children(find(root, "commentList"), "comment"):
        cell, at = attribute(comment, "ref"), number(comment, "authorId")
        text = _words(find(comment, "text"))
        if cell in threaded and text.startswith(_THREADED):
            continue
        author = authors[at] if at is not None and at < len(authors) else ""
        # Programs write the author into the comment, too.
        found.add(cell, text.removeprefix(f"{author}:") if author else text, author)


def _add_margins(found: SheetParts, data: bytes) -> None:
    """Add the headers and footers of a sheet, without their codes (`&P` is the number of the page)."""
    for kind, text in _MARGIN.findall(data, max(0, data.rfind(b"sheetData"))):
        words = html.unescape(text.decode("utf-8", "replace")).replace("&&", "\0")
        words = _CODES.sub(" ", words).replace("\0", "&")
        if any(map(str.isalnum, words)):
            found.add(kind.decode(), words)


def _column(letters: bytes) -> int:
    """Return the number of a column, from 0."""
    found = 0
    for letter in letters:
        found = found * 26 + letter - 64
    return found - 1


class Calc:
    """What stands beside the sheets of an ODS. Of one that is too large or damaged, the first sheet says that
    it was not read."""

    def __init__(self, archive: Archive) -> None:
        self._sheets: dict[str, SheetParts] = {}
        self._default = SheetParts()
        if archive.size("content.xml") > _LARGEST_CALC:
            self._default.is_damaged = b"<office:annotation" in archive.read("content.xml")
            return
        for table in children(find(archive.xml("content.xml"), "body", "spreadsheet"), "table"):
            found = self._sheets[attribute(table, "name")] = SheetParts()
            _read_table(table, found, 1)

    def sheet(self, name: str) -> SheetParts:
        """Return what a sheet holds besides its values."""
        default, self._default = self._default, SheetParts()
        return self._sheets.get(name, default)


def _read_table(table: Element, found: SheetParts, row: int) -> int:
    """Read the rows of a table or a group of rows from number `row`. Return the number of the next row."""
    for part in table:
        match local_name(part):
            case "table-row":
                _read_row(part, found, row)
                row = min(row + _count(part, "number-rows-repeated"), _MAX_ROW)
            case "table-header-rows" | "table-rows" | "table-row-group":
                row = _read_table(part, found, row)
            case "shapes":
                _add_shapes(found, part)
    return row


def _read_row(row: Element, found: SheetParts, at: int) -> None:
    column = 0
    for cell in row:
        if not local_name(cell).endswith("table-cell"):
            continue
        for part in cell:
            match local_name(part):
                case "annotation":
                    creator = find(part, "creator")
                    author = "".join(creator.itertext()).strip() if creator is not None else ""
                    words = " ".join("".join(one.itertext()) for one in children(part, "p"))
                    found.add(f"{column_letters(column)}{at}", words, author)
                case "p":
                    pass
                case _:
                    _add_shapes(found, [part])
        column += _count(cell, "number-columns-repeated")


def _add_shapes(found: SheetParts, shapes: Iterable[Element]) -> None:
    for shape in shapes:
        paragraphs = ("".join(one.itertext()) for one in shape.iter() if local_name(one) == "p")
        found.add("Text box", "\n".join(paragraphs))
        found.pictures += sum(local_name(one) in ("image", "object", "object-ole") for one in shape.iter())


def _count(element: Element, name: str) -> int:
    count = number(element, name)
    return 1 if count is None else min(count, _MAX_ROW)


def has_old_notes(file: BinaryIO) -> bool:
    """Return whether an XLS holds comments or text boxes."""
    file.seek(0)
    if file.read(len(olefile.MAGIC)) != olefile.MAGIC:
        return False
    file.seek(0)
    try:
        with olefile.OleFileIO(file) as compound:
            name = next((name for name in ("Workbook", "Book") if compound.exists(name)), None)
            data = compound.openstream(name).read() if name else b""
    except (OSError, ValueError, IndexError, struct.error):
        return False
    at = 0
    while at + _RECORD.size <= len(data):
        kind, size = _RECORD.unpack_from(data, at)
        if kind in _OLD_NOTES:
            return True
        at += _RECORD.size + size
    return False
