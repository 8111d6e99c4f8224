"""Reads DOCX in one walk: headings, lists with their numbers, tables, text boxes and charts where they stand,
notes below their paragraph; headers, footers and comments at the end."""

from __future__ import annotations

import io
import re
import zipfile
from collections.abc import Callable, Iterable, Iterator
from typing import BinaryIO, TypeVar

from rlm.documents.formats import html
from rlm.documents.formats.archive import Archive, refuse_compound
from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.office_xml.drawings import chart_text, count_pictures, diagram_text
from rlm.documents.formats.office_xml.numbering import Numbering, Styles
from rlm.documents.formats.office_xml.xml import (
    Element,
    attribute,
    children,
    find,
    is_on,
    links_of,
    local_name,
    number,
    parse_member,
)
from rlm.documents.formats.piece import Ended, Heading, Note, Piece, Text, Unreadable, text_of
from rlm.documents.formats.tables.markup_rows import LONGEST_CELL, cell_of_lines, table_lines

__all__ = ["prepare", "read_docx"]

_T = TypeVar("_T")

_WHAT = "a DOCX"
_MAIN = "word/document.xml"
_MARKUP = (".htm", ".html", ".xhtml")
_MOST_SPANNED = 100
_PROPERTIES = {
    *("pPr", "rPr", "sectPr", "tblPr", "tblGrid", "tcPr", "trPr", "sdtPr", "sdtEndPr", "docPr"),
    *("instrText", "delText", "moveFrom"),
}
"""What holds no words of the text."""
_LETTERS = {"tab": "\t", "ptab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011"}
_GREEK = dict(
    zip(
        range(0x41, 0x7B),
        "ΑΒΧΔΕΦΓΗΙϑΚΛΜΝΟΠΘΡΣΤΥςΩΞΨΖ[∴]⊥_‾αβχδεφγηιϕκλμνοπθρστυϖωξψζ",
        strict=True,
    )
)
_SYMBOLS = {
    "Symbol": _GREEK
    | dict(zip(b"\xa3\xb3\xb1\xb4\xb8\xb9\xbb\xa5\xb0\xd6\xac\xae\xe5\xf2", "≤≥±×÷≠≈∞°√←→∑∫", strict=True)),
    "Wingdings": dict(zip(b"\xfb\xfc\xfd\xfe\xa8\x6f\x78\xdf\xe0\xa7", "✗✓☒☑☐☐☒←→▪", strict=True)),
}
"""What the characters of these fonts look like. Word stores them by their places in the font."""
_HEX = re.compile(r"[0-9A-Fa-f]{2}")
_PAGE_NUMBER = re.compile(r"\W*\d{0,4}\W*")
_SAMPLE = "<w:document xmlns:w='w'><w:body><w:p><w:r><w:t>a</w:t></w:r></w:p></w:body></w:document>"


def prepare() -> None:
    """Import what reading needs, by reading a small document: later nothing can be opened."""
    html.prepare()
    sample = io.BytesIO()
    with zipfile.ZipFile(sample, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_MAIN, _SAMPLE)
    list(read_docx(sample, sample.seek(0, 2)))


def read_docx(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a Word document. Raises Unreadable."""
    refuse_compound(file, _WHAT, ".docx")
    archive = Archive(file, size, _WHAT)
    links = links_of(archive, "", _WHAT).values()
    main = next((link.target for link in links if link.kind == "officeDocument"), _MAIN)
    if main not in archive:
        raise Unreadable(
            "a zip archive but not a DOCX",
            "name a Word document, or unpack the archive and name its text files",
        )
    try:
        yield from _Document(archive, main).pieces()
    except RecursionError as error:
        raise Unreadable("a DOCX nested too deeply", "open it in its program and save it again") from error


class _Document:
    """Collects the pieces of a document, and counts what cannot be read."""

    def __init__(self, archive: Archive, main: str) -> None:
        self._archive = archive
        self._main = main
        self._links = links_of(archive, main, _WHAT)
        """The relations of the part that is read."""
        self._parts = list(self._links.values())
        self._faults: list[Piece] = []
        self._styles = Styles(self._read("styles", list))
        self._numbering = Numbering(self._read("numbering", list), self._styles)
        self._notes: dict[tuple[str, str], Element] = {}
        """The footnotes and endnotes to which no text refers so far, by kind and id."""
        self._referred = 0
        self._pieces: list[Piece] = []
        self._after: list[str] = []
        """Notes, text boxes and charts of the open paragraph or table. They come below it."""
        self._begun = ""
        """The text of a paragraph that goes on in the next one."""
        self._is_in_cell = False
        self._was_item = False
        self._tables = 0
        self._pictures: list[str] = []
        """The file of each picture and embedded object, "" if it has none."""
        self._deleted = 0
        self._ended = Ended()
        """What was replaced and guessed in the pages that are put in."""

    def pieces(self) -> Iterator[Piece]:
        """Yield the text, then what has no place in it, then notes. Raises Unreadable or RecursionError."""
        for kind in ("footnote", "endnote"):
            for note in self._read(f"{kind}s", list):
                self._notes[kind, attribute(note, "id")] = note
        yield from self._below(parse_member(self._archive, self._main, _WHAT))
        yield from _section("Notes", self._unreferred())
        comments = self._read("comments", self._comments)
        pictures, deleted = list(self._pictures), self._deleted
        # A letterhead is on every page: its picture is no part of the text.
        margins = [*self._read("header", self._lines), *self._read("footer", self._lines)]
        yield from _section(
            "Headers and footers", [line for line in margins if not _PAGE_NUMBER.fullmatch(line)]
        )
        yield from _section("Comments", comments)
        yield from self._faults
        if deleted:
            yield Note(
                ("1 deletion that is" if deleted == 1 else f"{deleted:,} deletions that are")
                + " only proposed count as deleted: accept or reject the changes"
            )
        if count := count_pictures(pictures):
            yield Note(
                f"the words in pictures and embedded objects were not read ({count:,}): "
                "export it as PDF if they matter"
            )
        yield self._ended

    def _read(self, kind: str, read: Callable[[Element], Iterable[_T]]) -> list[_T]:
        """Return what `read` gives of the parts of a kind. A damaged part is named."""
        outer = self._links
        given: list[_T] = []
        for link in self._parts:
            if link.kind != kind:
                continue
            try:
                self._links = links_of(self._archive, link.target, _WHAT)
                given += read(parse_member(self._archive, link.target, _WHAT))
            except (Unreadable, RecursionError):
                told = (
                    f"its part {link.target[:80]} is damaged and was not read: save it again in its program"
                )
                self._faults.append(Note(told))
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
        outer = self._pieces, self._begun, self._after, self._is_in_cell
        self._pieces, self._begun, self._is_in_cell = [], "", is_cell
        if not is_cell:
            self._after = []
        try:
            self._walk(element)
            if self._begun:
                self._put(self._begun)
            self._put_after()
            return self._pieces
        finally:
            self._pieces, self._begun, self._after, self._is_in_cell = outer

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

    def _put(self, text: str, *, is_item: bool = False) -> None:
        """Add a paragraph or a table. A blank line parts it from one before, but not items of a list."""
        last = self._pieces[-1] if self._pieces else None
        gap = "\n" if isinstance(last, Text) and not (is_item and self._was_item) else ""
        self._pieces.append(Text(f"{gap}{text}\n"))
        self._was_item = is_item

    def _put_after(self) -> None:
        """Add the notes, boxes and charts of what was put last."""
        if not self._is_in_cell:
            for text in self._after:
                self._put(text)
            self._after.clear()

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
            self._pieces.append(Heading(min(level, 6), " ".join(title.split())))
        elif text:
            self._put(f"{'  ' * depth}{mark} {text}" if mark else text, is_item=label is not None)
        self._put_after()

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
                    known = _SYMBOLS.get(attribute(child, "font"), {})
                    words.append(known.get(int(code, 16), "") if _HEX.fullmatch(code) else "")
                case "del":
                    self._count_deleted(child)
                case "footnoteReference" | "endnoteReference" as name:
                    self._refer((name.removesuffix("Reference"), attribute(child, "id")), words)
                case "txbxContent" | "p":
                    box = Element("box")
                    box.append(child)
                    self._add_after(text_of(self._below(box)))
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
            self._add_after(f"[{self._referred}] {' '.join(self._lines(note))}")

    def _add_after(self, text: str) -> None:
        if text.strip():
            self._after.append(text.strip("\n"))

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
            self._pieces += inside
        elif grid:
            self._put("\n".join(table_lines(grid, has_header=has_header)))
        self._put_after()

    def _drawing(self, element: Element, *, is_chart: bool) -> None:
        """Add the lines of a chart or a SmartArt drawing."""
        link = self._links.get(attribute(element, "id" if is_chart else "dm"))
        try:
            root = parse_member(self._archive, link.target if link else "", _WHAT)
        except Unreadable:
            self._pictures.append("")
            return
        text = chart_text(root) if is_chart else diagram_text(root)
        self._add_after(text)
        if not text.strip():
            self._pictures.append("")

    def _page(self, element: Element) -> None:
        """Add a document of another format that is put in: a page of HTML."""
        link = self._links.get(attribute(element, "id"))
        try:
            if link is None or not link.target.lower().endswith(_MARKUP):
                raise Unreadable("of another format", "")
            markup, replaced, guessed = decode_markup(self._archive.read(link.target))
            self._pieces += pieces_of_markup(markup, titled=False)
        except Unreadable:
            self._pictures.append("")
        else:
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
