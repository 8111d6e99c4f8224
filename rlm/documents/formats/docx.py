"""Reads DOCX in one walk: headings, lists with their numbers, tables, text boxes and charts where they stand,
notes below their paragraph; headers, footers and comments at the end."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, TypeVar

from rlm.documents.formats.flow import LONGEST_CELL, Flow, cell_of_lines, field_target, link_target
from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.numbering import SYMBOLS, Numbering, Styles
from rlm.documents.formats.office_xml import (
    Archive,
    Element,
    attribute,
    chart_text,
    children,
    diagram_text,
    find,
    is_on,
    local_name,
    number,
    refuse_compound,
    unread_pictures,
)
from rlm.documents.formats.piece import Ended, Heading, Piece, Problem, Text, text_of

__all__ = ["read_docx"]

_T = TypeVar("_T")

_MAIN = "word/document.xml"
_MARKUP = (".htm", ".html", ".xhtml")
_MOST_SPANNED = 100
_PROPERTIES = {
    *("pPr", "rPr", "sectPr", "tblPr", "tblGrid", "tcPr", "trPr", "sdtPr", "sdtEndPr", "docPr"),
    *("delText", "moveFrom"),
}
"""What holds no words of the text."""
_LETTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}
_HEX = re.compile(r"[0-9A-Fa-f]{2}")
_PAGE_NUMBER = re.compile(r"\W*\d{0,4}\W*")


def read_docx(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a Word document. Raises Fault."""
    refuse_compound(file)
    archive = Archive(file, size)
    yield from _Document(archive, archive.main(_MAIN)).pieces()


class _Document:
    """Collects the pieces of a document, and counts what cannot be read."""

    def __init__(self, archive: Archive, main: str) -> None:
        self._archive = archive
        self._main = main
        self._links = archive.links(main)
        """The relations of the part that is read."""
        self._parts = list(self._links.values())
        self._damaged: list[str] = []
        self._styles = Styles(self._read("styles", list))
        self._numbering = Numbering(self._read("numbering", list), self._styles)
        self._notes: dict[tuple[str, str], Element] = {}
        """The footnotes and endnotes to which no text refers so far, by kind and id."""
        self._referred = 0
        self._flow = Flow()
        self._begun = ""
        """The text of a paragraph that goes on in the next one."""
        self._is_in_cell = False
        self._field = ""
        """What the open field is to show: a link."""
        self._tables = 0
        self._pictures: list[str] = []
        """The file of each picture and embedded object, "" if it has none."""
        self._deleted = 0
        self._ended = Ended()
        """What was replaced and guessed in the pages that are put in."""

    def pieces(self) -> Iterator[Piece]:
        """Yield the text, then what has no place in it, then problems."""
        for kind in ("footnote", "endnote"):
            for note in self._read(f"{kind}s", list):
                self._notes[kind, attribute(note, "id")] = note
        yield from self._below(self._archive.xml(self._main))
        yield from _section("Notes", self._unreferred())
        comments = self._read("comments", self._comments)
        pictures, deleted = list(self._pictures), self._deleted
        # A letterhead is on every page: its picture is no part of the text.
        margins = [*self._read("header", self._lines), *self._read("footer", self._lines)]
        yield from _section(
            "Headers and footers", [line for line in margins if not _PAGE_NUMBER.fullmatch(line)]
        )
        yield from _section("Comments", comments)
        for part in self._damaged:
            yield Problem(f"its part {part[:80]} is damaged and was not read", "save it again in its program")
        if deleted:
            what = "1 deletion that is" if deleted == 1 else f"{deleted:,} deletions that are"
            yield Problem(f"{what} only proposed count as deleted", "accept or reject the changes")
        yield from unread_pictures(pictures)
        yield self._ended

    def _read(self, kind: str, read: Callable[[Element], Iterable[_T]]) -> list[_T]:
        """Return what `read` gives of the parts of a kind. A damaged part is named."""
        outer = self._links
        given: list[_T] = []
        for link in self._parts:
            if link.kind != kind:
                continue
            try:
                self._links = self._archive.links(link.target)
                given += read(self._archive.xml(link.target))
            except Exception:  # whatever a library raises
                self._damaged.append(link.target)
        self._links = outer
        return given

    def _lines(self, element: Element) -> list[str]:
        return [line.strip() for line in text_of(self._below(element)).split("\n") if line.strip()]

    def _comments(self, root: Element) -> Iterator[str]:
        """Yield `Ann: text` for each comment."""
        for comment in children(root, "comment"):
            if words := " ".join(self._lines(comment)):
                yield f"{attribute(comment, 'author') or 'Comment'}: {words}"

    def _unreferred(self) -> list[str]:
        return [line for note in self._notes.values() for line in self._lines(note)]

    def _below(self, element: Element, *, is_cell: bool = False) -> list[Piece]:
        """Return the pieces below an element. What a cell has below its paragraphs stays for the table's
        end."""
        outer, begun, was_in_cell = self._flow, self._begun, self._is_in_cell
        flow = self._flow = Flow()
        self._begun, self._is_in_cell = "", is_cell
        try:
            self._walk(element)
            if self._begun:
                flow.put(self._begun)
            if is_cell:
                flow.move_notes(outer)
            flow.end_notes(is_apart=True)
            return flow.pieces
        finally:
            self._flow, self._begun, self._is_in_cell = outer, begun, was_in_cell

    def _walk(self, element: Element) -> None:
        for child in element:
            match local_name(child):
                case "p":
                    self._paragraph(child)
                case "tbl":
                    self._table(child)
                case "altChunk":
                    self._page(child)
                case "AlternateContent":
                    self._walk(_one_form(child))
                case "del":
                    self._count_deleted(child)
                case name if name not in _PROPERTIES:
                    self._walk(child)

    def _end_notes(self) -> None:
        """Add the notes, boxes and charts of what was put last."""
        if not self._is_in_cell:
            self._flow.end_notes(is_apart=True)

    def _paragraph(self, element: Element) -> None:
        words = [self._begun]
        self._begun = ""
        self._inline(element, words)
        text = "".join(words).strip()
        properties = find(element, "pPr")
        frame = find(properties, "framePr")
        is_drop_cap = frame is not None and attribute(frame, "dropCap") in ("drop", "margin")
        if is_drop_cap or find(properties, "rPr", "del") is not None:
            # The first letter of the next paragraph, or a paragraph whose end is deleted.
            self._begun = "".join(words).rstrip("\n")
            return
        style = attribute(named, "val") if (named := find(properties, "pStyle")) is not None else ""
        outline = number(find(properties, "outlineLvl"))
        level = self._styles.level(style) if outline is None else outline + 1
        label = self._numbering.label(find(properties, "numPr"), style)
        depth, mark = label or (0, "")
        if text and 0 < level < 10:
            title = text if mark in ("", "-") else f"{mark} {text}"
            self._flow.put(title, level=level, is_apart=False)
        elif text:
            line = f"{'  ' * depth}{mark} {text}" if mark else text
            self._flow.put(line, is_apart=label is None)
        self._end_notes()

    def _inline(self, element: Element, words: list[str]) -> None:
        """Add the words below an element of a paragraph."""
        for child in element:
            match local_name(child):
                case "t":
                    words.append(child.text or "")
                case name if name in _LETTERS:
                    words.append(_LETTERS[name])
                case "sym":
                    code = attribute(child, "char")[-2:]
                    known = SYMBOLS.get(attribute(child, "font"), {})
                    words.append(known.get(int(code, 16), "") if _HEX.fullmatch(code) else "")
                case "del":
                    self._count_deleted(child)
                case "footnoteReference" | "endnoteReference" as name:
                    self._refer((name.removesuffix("Reference"), attribute(child, "id")), words)
                case "txbxContent" | "p":
                    box = Element("box")
                    box.append(child)
                    self._flow.add_after(text_of(self._below(box)))
                case "AlternateContent":
                    self._inline(_one_form(child), words)
                case "inline" | "anchor":
                    before = len(self._pictures)
                    self._inline(child, words)
                    described = find(child, "docPr")
                    if described is not None and len(self._pictures) > before:
                        _describe(attribute(described, "descr") or attribute(described, "title"), words)
                case "blip" | "imagedata":
                    link = self._links.get(attribute(child, "embed") or attribute(child, "id"))
                    self._pictures.append(link.target if link else "")
                    _describe(attribute(child, "title"), words)
                case "chart" | "relIds" as name:
                    self._drawing(child, is_chart=name == "chart")
                case "hyperlink":
                    inside: list[str] = []
                    self._inline(child, inside)
                    link = self._links.get(attribute(child, "id"))
                    target = link.target if link and link.is_outside else ""
                    words += [*inside, link_target(target, "".join(inside))]
                case "instrText":
                    self._field += child.text or ""
                case "fldChar":
                    if attribute(child, "fldCharType") != "separate":
                        words.append(field_target(self._field, words))
                        self._field = ""
                    self._inline(child, words)
                case "ddList":
                    entries = [attribute(one, "val") for one in children(child, "listEntry")]
                    words += [f"{one} " for one in entries[number(find(child, "result")) or 0 :][:1]]
                case name if name not in _PROPERTIES:
                    self._inline(child, words)

    def _refer(self, key: tuple[str, str], words: list[str]) -> None:
        """Number a footnote where the text first refers to it."""
        if (note := self._notes.pop(key, None)) is not None:
            self._referred += 1
            words.append(f"[{self._referred}]")
            self._flow.add_after(f"[{self._referred}] {' '.join(self._lines(note))}")

    def _count_deleted(self, element: Element) -> None:
        self._deleted += any(local_name(one) == "delText" for one in element.iter())

    def _table(self, element: Element) -> None:
        """Add a table, each row on a line. One that lays out a page holds tables, headings or long texts:
        what is in its cells is added one below the other."""
        self._tables += 1
        grid: list[list[str]] = []
        inside: list[Piece] = []
        tables, is_layout, has_header = self._tables, False, False
        for row in _inner(element, "tr"):
            if find(row, "trPr", "del") is not None:
                self._deleted += 1
                continue
            has_header = has_header or (not grid and is_on(find(row, "trPr", "tblHeader")))
            line = [""] * min(number(find(row, "trPr", "gridBefore")) or 0, _MOST_SPANNED)
            for cell in _inner(row, "tc"):
                pieces = self._below(cell, is_cell=True)
                inside += pieces
                is_layout |= any(isinstance(one, Heading) for one in pieces)
                text = cell_of_lines(text_of(pieces).split("\n"))
                is_layout |= len(text) > LONGEST_CELL
                merged = find(cell, "tcPr", "vMerge")
                if merged is not None and attribute(merged, "val") != "restart" and grid:
                    text = "".join(grid[-1][len(line) : len(line) + 1])
                span = min(number(find(cell, "tcPr", "gridSpan")) or 1, _MOST_SPANNED)
                line += [text, *[""] * (span - 1)]
            if any(line):
                grid.append(line)
        if is_layout or self._tables > tables:
            self._flow.extend(inside)
        elif grid:
            self._flow.put_table(grid, has_header=has_header)
        self._end_notes()

    def _drawing(self, element: Element, *, is_chart: bool) -> None:
        """Add the lines of a chart or a SmartArt drawing."""
        link = self._links.get(attribute(element, "id" if is_chart else "dm"))
        text = ""
        if link is not None and link.target in self._archive:
            try:
                root = self._archive.xml(link.target)
                text = chart_text(root) if is_chart else diagram_text(root)
            except Exception:  # whatever a library raises
                self._damaged.append(link.target)
        self._flow.add_after(text)
        if not text.strip():
            self._pictures.append("")

    def _page(self, element: Element) -> None:
        """Add a document of another format that is put in: a page of HTML."""
        link = self._links.get(attribute(element, "id"))
        if link is None or not link.target.lower().endswith(_MARKUP) or link.target not in self._archive:
            self._pictures.append("")
            return
        markup, replaced, guessed = decode_markup(self._archive.read(link.target))
        self._flow.extend(pieces_of_markup(markup, titled=False))
        self._ended = Ended(self._ended.replaced + replaced, self._ended.guessed or guessed)


def _section(title: str, lines: Iterable[str]) -> Iterator[Piece]:
    """Yield lines under a heading, each once."""
    if text := "".join(f"{line}\n" for line in dict.fromkeys(lines)):
        yield Heading(1, title)
        yield Text(text)


def _one_form(element: Element) -> Element:
    """Return one of two forms of the same content, for older and for newer programs: the older one if it
    holds words."""
    older, newer = find(element, "Fallback"), find(element, "Choice")
    if older is not None and (newer is None or any(local_name(one) == "t" for one in older.iter())):
        return older
    return Element("none") if newer is None else newer


def _describe(words: str, text: list[str]) -> None:
    """Add the description of a picture."""
    if words.strip():
        text.append(f" [{' '.join(words.split())}] ")


def _inner(element: Element, name: str) -> Iterator[Element]:
    """Yield the rows of a table or the cells of a row, those in content controls too."""
    for child in element:
        if local_name(child) == name:
            yield child
        elif local_name(child) in ("sdt", "sdtContent", "customXml", "ins", "moveTo"):
            yield from _inner(child, name)
