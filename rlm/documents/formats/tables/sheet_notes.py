"""What stands beside the cells of a sheet: comments, text boxes, titles of charts, headers and footers."""

from __future__ import annotations

import re
import struct
from collections.abc import Iterator
from dataclasses import field
from typing import BinaryIO

import olefile

from rlm.documents.formats.archive import Archive
from rlm.documents.formats.office_xml.drawings import chart_titles, drawn_paragraphs
from rlm.documents.formats.office_xml.xml import (
    Element,
    attribute,
    children,
    find,
    links_of,
    local_name,
    parse_member,
)
from rlm.documents.formats.piece import Unreadable
from rlm.documents.formats.tables.cell_places import column_letters
from rlm.lazy_dataclass import dataclass

__all__ = ["NOTES", "SheetNotes", "calc_notes", "excel_notes", "has_old_notes"]

NOTES = " (notes)"
"""Ends the name of the document that holds what stands beside the cells of a sheet."""

_WHAT = "a workbook"
_LARGEST = 64 << 20
"""Bytes of an ODS content that is looked through for comments."""
_CODES = re.compile(r'&(?:"[^"]*"|K[0-9A-Fa-f]{6}|\d+|[A-Za-z+-])')
_MARGIN = re.compile(rb"<(?:\w+:)?(\w+(?:Header|Footer))[^>]{0,200}>([^<]{1,2000})<")
_THREADED = "[Threaded comment]"
_MAX_ROW = 1 << 21
_RECORD = struct.Struct("<HH")
_OLD_NOTES = (0x1C, 0x1B6)
"""The records of a comment and of the text of a shape."""


@dataclass(slots=True)
class SheetNotes:
    """The lines beside one sheet, each with its cell or its kind, and what could not be read."""

    lines: list[str] = field(default_factory=list)
    pictures: int = 0
    is_damaged: bool = False

    def add(self, where: str, text: str) -> None:
        """Add `where: text` on a line."""
        if words := " ".join(text.split()):
            self.lines.append(f"{where}: {words}\n")

    def notes(self) -> Iterator[str]:
        """Yield what the user must know."""
        if self.is_damaged:
            yield "its comments or drawings are damaged and were not read: save it again in its program"
        if self.pictures:
            yield (
                f"the words in pictures and embedded objects were not read ({self.pictures:,}): "
                "save it as PDF too if they matter"
            )


def excel_notes(archive: Archive, part: str, workbook: str = "xl/workbook.xml") -> SheetNotes:
    """Return what stands beside the sheet in a part of an XLSX."""
    found = SheetNotes()
    try:
        links = links_of(archive, part, _WHAT).values()
        threaded = set[str]()
        for link in links:
            if link.kind == "threadedComment":
                people = _people(archive, workbook)
                for one in parse_member(archive, link.target, _WHAT):
                    threaded.add(attribute(one, "ref"))
                    author = people.get(attribute(one, "personId"), "")
                    found.add(_where(attribute(one, "ref"), author), _text(find(one, "text")))
        for link in links:
            if link.kind == "comments":
                _add_comments(found, parse_member(archive, link.target, _WHAT), threaded)
            elif link.kind == "drawing":
                _add_drawing(found, archive, link.target)
        for kind, text in _margins(archive, part):
            found.add(kind, text)
    except (Unreadable, RecursionError):
        found.is_damaged = True
    return found


def _where(cell: str, author: str) -> str:
    return f"{cell}, {author}" if author else cell


def _text(element: Element | None) -> str:
    """Return the words of a comment, without its readings (phonetic hints)."""
    if element is None:
        return ""
    own = element.text or ""
    return own + "".join(one.text or "" for one in element.iter() if local_name(one) == "t")


def _add_comments(found: SheetNotes, root: Element, threaded: set[str]) -> None:
    authors = [one.text or "" for one in children(find(root, "authors"), "author")]
    for comment in children(find(root, "commentList"), "comment"):
        cell, number = attribute(comment, "ref"), attribute(comment, "authorId")
        text = _text(find(comment, "text"))
        if cell in threaded and text.startswith(_THREADED):
            continue
        author = authors[int(number)] if number.isdecimal() and int(number) < len(authors) else ""
        # Programs write the author into the comment, too.
        found.add(_where(cell, author), text.removeprefix(f"{author}:") if author else text)


def _people(archive: Archive, workbook: str) -> dict[str, str]:
    people = {}
    for link in links_of(archive, workbook, _WHAT).values():
        if link.kind == "person" and link.target in archive:
            for person in parse_member(archive, link.target, _WHAT):
                people[attribute(person, "id")] = attribute(person, "displayName")
    return people


def _add_drawing(found: SheetNotes, archive: Archive, name: str) -> None:
    links = links_of(archive, name, _WHAT)
    for element in parse_member(archive, name, _WHAT).iter():
        match local_name(element):
            case "txBody":
                found.add("Text box", drawn_paragraphs(element))
            case "blip":
                found.pictures += 1
            case "chart":
                link = links.get(attribute(element, "id"))
                if link is None or link.target not in archive:
                    continue
                for title in chart_titles(parse_member(archive, link.target, _WHAT)):
                    found.add("Chart", title)


def _margins(archive: Archive, part: str) -> Iterator[tuple[str, str]]:
    """Yield the headers and footers of a sheet, without their codes (`&P` is the number of the page)."""
    data = archive.read(part)
    at = data.rfind(b"headerFooter")
    if at < 0:
        return
    start = data.rfind(b"<", 0, data.rfind(b"headerFooter", 0, at))
    inner = data[start : at + len(b"headerFooter>")]
    for name, text in _MARGIN.findall(inner[:100_000]):
        words = _unescaped(text.decode("utf-8", "replace"))
        words = _CODES.sub(" ", words.replace("&&", "\0")).replace("\0", "&")
        if any(map(str.isalnum, words)):
            yield ("Header" if name.endswith(b"Header") else "Footer"), words


def _unescaped(text: str) -> str:
    for mark, char in (("&lt;", "<"), ("&gt;", ">"), ("&quot;", '"'), ("&apos;", "'"), ("&amp;", "&")):
        text = text.replace(mark, char)
    return text


def calc_notes(archive: Archive) -> dict[str, SheetNotes]:
    """Return what stands beside the sheets of an ODS, by the name of the sheet. For an ODS that is too large,
    the entry "" says that it was not read."""
    if archive.size("content.xml") > _LARGEST:
        whole = SheetNotes(is_damaged=b"<office:annotation" in archive.read("content.xml"))
        return {"": whole}
    found: dict[str, SheetNotes] = {}
    try:
        root = parse_member(archive, "content.xml", _WHAT)
        for table in children(find(root, "body", "spreadsheet"), "table"):
            notes = found[attribute(table, "name")] = SheetNotes()
            _read_table(table, notes, 1)
    except (Unreadable, RecursionError):
        found[""] = SheetNotes(is_damaged=True)
    return found


def _read_table(table: Element, notes: SheetNotes, row: int) -> int:
    """Read the rows of a table or a group of rows from number `row`. Return the number of the next row."""
    for part in table:
        match local_name(part):
            case "table-row":
                _read_row(part, notes, row)
                row = min(row + _count(part, "number-rows-repeated"), _MAX_ROW)
            case "table-header-rows" | "table-rows" | "table-row-group":
                row = _read_table(part, notes, row)
            case "shapes":
                _add_shapes(notes, part)
    return row


def _read_row(row: Element, notes: SheetNotes, number: int) -> None:
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
                    notes.add(_where(f"{column_letters(column)}{number}", author), words)
                case "p":
                    pass
                case _:
                    _add_shapes(notes, [part])
        column += _count(cell, "number-columns-repeated")


def _add_shapes(notes: SheetNotes, shapes: Element | list[Element]) -> None:
    for shape in shapes:
        notes.add(
            "Text box", "\n".join("".join(one.itertext()) for one in shape.iter() if local_name(one) == "p")
        )
        notes.pictures += sum(local_name(one) in ("image", "object", "object-ole") for one in shape.iter())


def _count(element: Element, name: str) -> int:
    count = attribute(element, name)
    return min(int(count), _MAX_ROW) if count.isdecimal() and len(count) < 10 else 1


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
