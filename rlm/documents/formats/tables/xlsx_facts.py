"""What calamine does not tell of an XLSX: percents, formulas without a value, the extent."""

from __future__ import annotations

import posixpath
import re
from dataclasses import field
from xml.etree import ElementTree

from rlm.documents.formats.archive import Archive
from rlm.documents.formats.piece import Unreadable
from rlm.documents.formats.tables.sheet_notes import SheetNotes, excel_notes
from rlm.lazy_dataclass import dataclass

__all__ = ["SheetFacts", "XlsxFacts"]

_LARGEST_SCANNED = 256 << 20
_HEAD = 4096
_PERCENT_IDS = frozenset((9, 10))
"""The built-in number formats `0%` and `0.00%`."""
_QUOTED = re.compile(r'"[^"]*"|\\.')
_DIMENSION = re.compile(rb'<(?:\w+:)?dimension\s[^>]{0,200}?ref="[A-Z]{1,3}\d{1,7}:([A-Z]{1,3})(\d{1,7})"')
_COMPUTED = re.compile(rb"(?:</f>|<f [^>]{0,1000}/>)<v>[^<]")
_NO_VALUE = re.compile(
    rb"<c\b(?P<attributes>[^>]{0,200})><f\b(?:[^>]{0,1000}/>|[^>]{0,1000}>[^<]{0,20000}</f>)"
    rb"(?P<value><v\s*/>|<v></v>)?</c>"
)
_CELL = re.compile(rb'\br="([A-Z]{1,3})(\d{1,7})"')
_STALE = (
    "its formulas are to be computed anew when it is opened, so their values may be old or 0: "
    "open it in its program and save it again"
)


@dataclass(slots=True)
class SheetFacts:
    """Facts about one sheet. `percents` holds the columns of cells that are shown as percent, by row; rows
    and columns count from 0. `uncomputed` is the number of formulas without a value."""

    height: int = 0
    width: int = 0
    percents: dict[int, list[int]] = field(default_factory=dict)
    uncomputed: int = 0
    first_uncomputed: str = ""

    @property
    def cells(self) -> int:
        """Return how many cells the sheet says that it spans; 0 if it does not say."""
        return self.height * self.width

    def notes(self) -> list[str]:
        """Return what the user must know about the sheet."""
        if not self.uncomputed:
            return []
        formulas = "formula has" if self.uncomputed == 1 else "formulas have"
        return [
            f"{self.uncomputed:,} {formulas} no computed value (the first is {self.first_uncomputed}): "
            "open the workbook in its program and save it again"
        ]


class XlsxFacts:
    """Facts about the sheets of an XLSX, by name. What is missing or unusual is left out: calamine decides
    whether the workbook can be read. Raises Unreadable for a damaged archive, and one that declares entities.
    """

    def __init__(self, archive: Archive) -> None:
        self._archive = archive
        workbook = _parse(archive, "xl/workbook.xml")
        targets = {
            one.get("Id", ""): one.get("Target", "") for one in _parse(archive, "xl/_rels/workbook.xml.rels")
        }
        self._parts: dict[str, str] = {}
        self._is_stale = False
        for element in workbook.iter():
            if _tag(element) == "sheet":
                target = next((targets.get(v, "") for k, v in element.items() if k.endswith("}id")), "")
                path = target.lstrip("/") if target.startswith("/") else posixpath.join("xl", target)
                self._parts[element.get("name", "")] = posixpath.normpath(path)
            elif _tag(element) == "calcPr":
                self._is_stale = element.get("fullCalcOnLoad") in ("1", "true")
        self._percent_styles = self._find_percent_styles()

    def notes(self) -> list[str]:
        """Return what the user must know about the workbook."""
        notes = []
        if self._is_stale and any(_COMPUTED.search(self._xml(part)) for part in self._parts.values()):
            notes.append(_STALE)
        return notes

    def beside(self, name: str) -> SheetNotes:
        """Return what stands beside the cells of a sheet."""
        part = self._parts.get(name, "")
        return excel_notes(self._archive, part) if part in self._archive else SheetNotes()

    def sheet(self, name: str) -> SheetFacts:
        """Return the facts about a sheet."""
        facts = SheetFacts()
        data = self._xml(self._parts.get(name, ""))
        if extent := _DIMENSION.search(data, 0, _HEAD):
            facts.width, facts.height = _column(extent[1]) + 1, int(extent[2])
        if self._percent_styles:
            styles = b"|".join(re.escape(style.encode()) for style in sorted(self._percent_styles))
            for cell in re.finditer(rb'<c\b(?=[^>]{0,200}\bs="(?:%b)")[^>]{0,200}>' % styles, data):
                if place := _CELL.search(cell[0]):
                    facts.percents.setdefault(int(place[2]) - 1, []).append(_column(place[1]))
        for cell in _NO_VALUE.finditer(data):
            # A formula whose text is empty has a value: it is empty.
            if cell["value"] and b't="str"' in cell["attributes"]:
                continue
            if not facts.uncomputed and (place := _CELL.search(cell["attributes"])):
                facts.first_uncomputed = (place[1] + place[2]).decode()
            facts.uncomputed += 1
        return facts

    def _xml(self, part: str) -> bytes:
        if part not in self._archive or self._archive.size(part) > _LARGEST_SCANNED:
            return b""
        try:
            return self._archive.read(part)
        except Unreadable:
            return b""

    def _find_percent_styles(self) -> set[str]:
        """Return the styles of cells, by their number, that show a percent."""
        if "xl/styles.xml" not in self._archive:
            return set()
        formats = set(map(str, _PERCENT_IDS))
        styles: set[str] = set()
        for element in _parse(self._archive, "xl/styles.xml").iter():
            if _tag(element) == "numFmt" and "%" in _QUOTED.sub("", element.get("formatCode", "")):
                formats.add(element.get("numFmtId", ""))
            elif _tag(element) == "cellXfs":
                styles = {
                    str(number) for number, style in enumerate(element) if style.get("numFmtId") in formats
                }
        return styles


def _parse(archive: Archive, name: str) -> ElementTree.Element:
    try:
        # Archive.xml refuses documents that declare entities.
        return ElementTree.fromstring(archive.xml(name))  # noqa: S314
    except ElementTree.ParseError as error:
        raise Unreadable(
            f"a workbook whose {name} is damaged", "open it in its program and save it again"
        ) from error


def _tag(element: ElementTree.Element) -> str:
    return element.tag.rpartition("}")[2]


def _column(letters: bytes) -> int:
    """Return the number of a column, from 0."""
    number = 0
    for letter in letters:
        number = number * 26 + letter - 64
    return number - 1
