"""What calamine does not tell of the sheets of a workbook: percents, errors, formulas without a value, the
extent; and what stands beside the cells: comments, text boxes, titles of charts, headers and footers."""

from __future__ import annotations

import html
import re
import struct
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import BinaryIO

import olefile

from rlm.documents.formats.office_xml import (
    KNOWN_TO_EXCEL,
    Archive,
    Element,
    Link,
    attribute,
    chart_titles,
    children,
    drawn_paragraphs,
    find,
    local_name,
    number,
    unread_pictures,
)
from rlm.documents.formats.piece import Fault, Problem

__all__ = ["MOST_CELLS", "Excel", "Row", "SheetParts", "has_old_notes"]

MOST_CELLS = 30_000_000
"""Cells of a sheet that is read."""
_WORKBOOK, _STYLES = "xl/workbook.xml", "xl/styles.xml"
_SAVE = "open the workbook in its program and save it again"
_LARGEST_SCANNED = 256 << 20
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
_ERROR = re.compile(
    rb'<c\b(?=[^>]{0,200}\bt="e")[^>]{0,200}>\s{0,200}'
    rb"(?:<f\b(?:[^>]{0,1000}/>|[^>]{0,1000}>[^<]{0,20000}</f>)\s{0,200})?<v>(#[\w/!?]{1,20})</v>"
)
_LINK = re.compile(rb"<(?:\w+:)?hyperlink\b[^>]{0,2000}>")
_REFERENCE = re.compile(rb'\bref="([A-Z]{1,3})(\d{1,7})')
_RELATION = re.compile(rb'\bid="([^"]{1,100})"')
_CELL = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|\d+|[A-Za-z+-])')
_MARGIN = re.compile(rb"<(?:\w+:)?\w+(Header|Footer)\b[^>]{0,200}>([^<]{1,2000})<")
_THREADED = "[Threaded comment]"
_RECORD = struct.Struct("<HH")
_OLD_NOTES = (0x1C, 0x1B6)
"""The records of a comment and of the text of a shape."""
_PASSWORD = 0x2F
_OLD_BEGIN = (b"\x09\x00", b"\x09\x02", b"\x09\x04")
"""The first bytes of workbooks of Excel 2 to 4, which are no OLE files."""

Row = tuple[list[str], Mapping[int, int]]
"""The texts of a row, and the columns of cells that are merged over so many rows below."""


@dataclass(slots=True)
class SheetParts:
    """What a sheet holds besides its values. `percents` holds the columns of cells that are shown as percent,
    `errors` and `links` what cells show and where they lead, by row; rows and columns count from 0. `lines`
    stand beside the cells, each with its cell or its kind."""

    height: int = 0
    width: int = 0
    percents: dict[int, list[int]] = field(default_factory=dict)
    errors: dict[int, dict[int, str]] = field(default_factory=dict)
    links: dict[int, dict[int, str]] = field(default_factory=dict)
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
        self._root = archive.xml(_WORKBOOK)
        for element in self._root.iter():
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
            links = self._archive.links(part)
            for link in _LINK.finditer(data, max(0, data.rfind(b"sheetData"))):
                if (place := _REFERENCE.search(link[0])) and (key := _RELATION.search(link[0])):
                    target = links.get(key[1].decode("utf-8", "replace"))
                    columns = found.links.setdefault(int(place[2]) - 1, {})
                    columns[_column(place[1])] = target.target if target else ""
            self._look_beside(found, links)
            _add_margins(found, data)
        except Exception:  # whatever a library raises
            found.is_damaged = True
        return found

    def names(self) -> str:
        """Return the cells and formulas that have a name, each on a line."""
        return "".join(
            f"{attribute(one, 'name')}: {one.text or ''}\n"
            for one in children(find(self._root, "definedNames"), "definedName")
            if attribute(one, "hidden") != "1" and not attribute(one, "name").startswith("_xlnm.")
        )

    def without_far_rows(self, name: str) -> tuple[BinaryIO, bool] | None:
        """Return the workbook without the rows of a sheet that lie far below its others, and whether they
        hold any value; None if it has none or holds too many cells to look."""
        part = self._parts.get(name, "")
        if part not in self._archive or self._archive.size(part) > _LARGEST_SPARSE:
            return None
        data = self._archive.read(part)
        last = 0
        for row in _ROW.finditer(data):
            if int(row[1]) > last + _FAR:
                end = data.find(b"</sheetData>", row.start())
                kept = _DIMENSION_TAG.sub(b"", data[: row.start()] + data[end:], count=1)
                if not last or end < 0:
                    return None
                far = data[row.start() : end]
                return self._archive.changed(part, kept), b"<v" in far or b"<is" in far
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
        for cell in _ERROR.finditer(data):
            if place := _CELL.search(cell[0]):
                found.errors.setdefault(int(place[2]) - 1, {})[_column(place[1])] = cell[1].decode()
        for cell in _NO_VALUE.finditer(data):
            # A formula whose text is empty has a value: it is empty.
            if cell["value"] and b't="str"' in cell["attributes"]:
                continue
            if not found.uncomputed and (place := _CELL.search(cell["attributes"])):
                found.first_uncomputed = (place[1] + place[2]).decode()
            found.uncomputed += 1
        found.is_stale = self._is_stale and _COMPUTED.search(data) is not None

    def _look_beside(self, found: SheetParts, links_of_sheet: Mapping[str, Link]) -> None:
        links = links_of_sheet.values()
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


def has_old_notes(file: BinaryIO) -> bool:
    """Return whether an XLS holds comments or text boxes. Raises Fault for one that is encrypted, or too
    old."""
    file.seek(0)
    head = file.read(len(olefile.MAGIC))
    if head != olefile.MAGIC:
        if head[:2] in _OLD_BEGIN:
            raise Fault("old", "Excel 4 or older", "save it as .xlsx")
        return False
    file.seek(0)
    try:
        with olefile.OleFileIO(file) as compound:
            name = next((name for name in ("Workbook", "Book") if compound.exists(name)), None)
            data = compound.openstream(name).read() if name else b""
    except (OSError, ValueError, IndexError, struct.error):
        return False  # calamine says so
    at = 0
    has_notes = False
    while at + _RECORD.size <= len(data):
        kind, size = _RECORD.unpack_from(data, at)
        if kind == _PASSWORD:
            raise Fault("locked", KNOWN_TO_EXCEL)
        has_notes = has_notes or kind in _OLD_NOTES
        at += _RECORD.size + size
    return has_notes
