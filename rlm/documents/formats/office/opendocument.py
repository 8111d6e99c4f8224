"""Reads OpenDocument texts and presentations: headings, paragraphs, lists, tables, footnotes, slides."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Iterator
from dataclasses import field
from typing import BinaryIO

from rlm.documents.formats.archive import Archive, refuse_entities
from rlm.documents.formats.office.slides import Slide, master_pieces, slide_pieces
from rlm.documents.formats.office_xml.drawings import count_pictures
from rlm.documents.formats.office_xml.numbering import written
from rlm.documents.formats.office_xml.xml import (
    Element,
    attribute,
    children,
    find,
    local_name,
    parse,
    parse_member,
    rows,
)
from rlm.documents.formats.piece import Ended, Heading, Note, Piece, Text, Unreadable, text_of
from rlm.lazy_dataclass import dataclass

__all__ = ["prepare", "read_odp", "read_odt"]

_CONTENT, _STYLES, _MANIFEST = "content.xml", "styles.xml", "META-INF/manifest.xml"
_MAX_BLANKS = 200
_MAX_COLUMNS = 1_000
_MAX_LEVELS = 10
# What stands in the text, but is not shown in it.
_SILENT = frozenset(
    [
        "tracked-changes",
        "sequence-decls",
        "variable-decls",
        "user-field-decls",
        "settings",
        "annotation-end",
        "bookmark",
        "bookmark-start",
        "bookmark-end",
        "alphabetical-index-mark",
        "title",
        "desc",
    ]
)
_SAMPLE = (
    "<office:document xmlns:office='o' xmlns:text='t'><office:body><office:text><text:p>a</text:p>"
    "</office:text></office:body></office:document>"
)


def prepare() -> None:
    """Import what reading needs, by reading a small document: later nothing can be opened."""
    sample = io.BytesIO()
    with zipfile.ZipFile(sample, "w", zipfile.ZIP_DEFLATED) as archive:
        archive.writestr(_CONTENT, _SAMPLE)
    list(read_odt(sample, sample.seek(0, 2)))


def read_odt(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a text document, footnotes below their paragraph, and the headers and
    footers of its pages at the end. Raises Unreadable."""
    what = "an ODT"
    content, styles = _open(file, size, what)
    body = find(content, "body", "text")
    if body is None:
        raise Unreadable("an OpenDocument file without a text document", "save it as .odt")
    try:
        flow = _Flow(_Numbers(content, styles))
        flow.read(body)
        pieces = flow.pieces
        margins = list(dict.fromkeys(_margins(styles)))
    except RecursionError as error:
        raise Unreadable(f"{what} nested too deeply", "open it in its program and save it again") from error
    yield from pieces
    if margins:
        yield Heading(1, "Headers and footers")
        yield Text("".join(margins))
    if flow.deleted:
        yield Note(
            f"{flow.deleted:,} deletions that are only proposed are read as deleted: accept or reject them"
        )
    if pictures := count_pictures(flow.pictures):
        yield Note(
            f"the words in pictures and embedded objects were not read ({pictures:,}): "
            "export it as PDF if they matter"
        )
    yield Ended()


def read_odp(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each slide under a heading (`Slide 3: Prices`), then its notes and comments. Raises
    Unreadable."""
    what = "an ODP"
    content, styles = _open(file, size, what)
    body = find(content, "body", "presentation")
    if body is None:
        raise Unreadable("an OpenDocument file without a presentation", "save it as .odp")
    hidden = {
        attribute(style, "name")
        for root in (content, styles)
        for style in children(find(root, "automatic-styles"), "style")
        for facts in children(style, "drawing-page-properties")
        if attribute(facts, "visibility") == "hidden"
    }
    try:
        slides = [_slide(page, hidden) for page in children(body, "page")]
        masters = list(_masters(body, styles))
    except RecursionError as error:
        raise Unreadable(f"{what} nested too deeply", "open it in its program and save it again") from error
    yield from slide_pieces(slides, what)
    yield from master_pieces(masters)
    yield Ended()


def _open(file: BinaryIO, size: int, what: str) -> tuple[Element, Element | None]:
    """Return the content and the styles. A flat document is one XML file. Raises Unreadable."""
    file.seek(0)
    if file.read(4) != b"PK\x03\x04" and b"<" in (file.seek(0), file.read(200))[1]:
        file.seek(0)
        root = parse(refuse_entities(file.read(), what), what)
        return root, root
    archive = Archive(file, size, what)
    if _CONTENT not in archive:
        raise Unreadable(
            f"a zip archive but not {what}", "name a document, or unpack the archive and name its text files"
        )
    if _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
        raise Unreadable(f"{what} protected by a password", "save a copy without one")
    styles = parse_member(archive, _STYLES, what) if _STYLES in archive else None
    return parse_member(archive, _CONTENT, what), styles


def _margins(styles: Element | None) -> Iterator[str]:
    """Yield the text of each header and footer."""
    for page in children(find(styles, "master-styles"), "master-page"):
        for part in page:
            if local_name(part).startswith(("header", "footer")) and local_name(part)[6:] in (
                "",
                "-left",
                "-first",
            ):
                flow = _Flow()
                flow.read(part)
                text = text_of(flow.pieces)
                if any(map(str.isalpha, text)):  # more than the number of the page
                    yield text


def _masters(body: Element, styles: Element | None) -> Iterator[str]:
    """Yield the texts that stand on every slide: footers, and those of the master pages."""
    for part in body:
        if local_name(part) in ("header-decl", "footer-decl"):
            yield "".join(part.itertext())
    for page in children(find(styles, "master-styles"), "master-page"):
        for shape in page:
            # A placeholder says what is to be put there.
            if local_name(shape) != "notes" and not attribute(shape, "class"):
                flow = _Flow()
                flow.read_one(shape)
                yield text_of(flow.pieces)


def _slide(page: Element, hidden: set[str]) -> Slide:
    slide = Slide(is_hidden=attribute(page, "style-name") in hidden)
    for shape in page:
        flow = _Flow()
        flow.read_one(shape)
        text = text_of(flow.pieces)
        slide.pictures += flow.pictures
        match local_name(shape), attribute(shape, "class"):
            case "notes", _:
                slide.notes += text
            case "annotation", _:
                slide.comments.append(text)
            case _, "title" if not slide.title:
                slide.title = text
            case _, "page-number":
                pass
            case _ if text.strip():
                slide.blocks.append(text)
    return slide


_FORMS = {"1": "decimal", "a": "lowerLetter", "A": "upperLetter", "i": "lowerRoman", "I": "upperRoman"}
_OUTLINE = ""
"""The name of the style that numbers headings."""


class _Numbers:
    """Counts the items of lists, and headings, by the name of their style and their level."""

    def __init__(self, content: Element | None = None, styles: Element | None = None) -> None:
        self._levels: dict[tuple[str, int], Element] = {}
        self._counts: dict[str, dict[int, int]] = {}
        for root in (styles, content):
            for part in ("styles", "automatic-styles"):
                for style in find(root, part) or ():
                    if local_name(style) in ("list-style", "outline-style"):
                        name = _OUTLINE if local_name(style) == "outline-style" else attribute(style, "name")
                        for level in style:
                            self._levels[name, _number(level, "level")] = level

    def restart(self, style: str) -> None:
        """Begin a list anew."""
        self._counts.pop(style, None)

    def label(self, style: str, level: int, start: int = 0) -> str:
        """Count an item, and return what stands before its text: "2.1.", "-" for a bullet, "" for nothing."""
        facts = self._levels.get((style, level))
        counts = self._counts.setdefault(style, {})
        counts[level] = start or counts.get(level, self._start(style, level) - 1) + 1
        for deeper in [one for one in counts if one > level]:
            del counts[deeper]
        if facts is None or local_name(facts) == "list-level-style-bullet":
            return "-"
        if not attribute(facts, "num-format"):
            return ""
        shown = []
        for above in range(max(1, level + 1 - min(_number(facts, "display-levels"), _MAX_LEVELS)), level + 1):
            if form := attribute(self._levels.get((style, above), facts), "num-format"):
                value = counts.get(above, self._start(style, above))
                shown.append(written(value, _FORMS.get(form, "decimal")))
        return f"{attribute(facts, 'num-prefix')}{'.'.join(shown)}{attribute(facts, 'num-suffix')}".strip()

    def _start(self, style: str, level: int) -> int:
        facts = self._levels.get((style, level))
        return 1 if facts is None else _number(facts, "start-value")


@dataclass(slots=True)
class _Flow:
    """Collects the text below an element. A paragraph is one line."""

    numbers: _Numbers = field(default_factory=_Numbers)
    pieces: list[Piece] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    """The file of each picture and embedded object, "" if it has none."""
    deleted: int = 0
    _words: list[str] = field(default_factory=list)
    _after: list[str] = field(default_factory=list)
    """Footnotes and comments of the paragraph that is open."""
    _lists: list[str] = field(default_factory=list)
    """The styles of the lists that are open."""
    _start: int | None = None
    """The number that the item whose text has not begun states, 0 without one."""

    def read(self, element: Element) -> None:
        """Read the children of an element that holds paragraphs."""
        for child in element:
            self.read_one(child)

    def read_one(self, element: Element) -> None:
        """Read one element that is or holds paragraphs."""
        name = local_name(element)
        match name:
            case "p" | "h":
                self._paragraph(element, is_heading=name == "h")
            case "list":
                self._list(element)
            case "table":
                self.pieces.append(Text(rows(self._table(element)) + "\n"))
            case "forms":
                self._forms(element)
            case "tracked-changes":
                self.deleted += sum(local_name(one) == "deletion" for one in element.iter())
            case "annotation":
                self._after.append(f"[{_annotation(element)}]\n")
                self._end_paragraph()
            case "image" | "object" | "object-ole" | "plugin":
                self.pictures.append(attribute(element, "href"))
            case "frame":
                self._frame(element)
            case _ if name not in _SILENT:
                self.read(element)

    def _list(self, element: Element) -> None:
        style = attribute(element, "style-name") or (self._lists[-1] if self._lists else "-")
        continued = attribute(element, "continue-numbering") == "true" or attribute(element, "continue-list")
        if not self._lists and not continued:
            self.numbers.restart(style)
        self._lists.append(style)
        for item in element:
            value = attribute(item, "start-value")[:9]
            is_item = local_name(item) == "list-item"
            self._start = (int(value) if value.isdecimal() else 0) if is_item else None
            self.read(item)
        self._lists.pop()

    def _label(self, level: int) -> str:
        """Return what stands before the text of a paragraph, of a heading if it has a level."""
        if self._lists and self._start is not None:
            start, self._start = self._start, None
            return self.numbers.label(self._lists[-1], len(self._lists), start)
        return self.numbers.label(_OUTLINE, level).removeprefix("-") if level and not self._lists else ""

    def _forms(self, forms: Element) -> None:
        """Read the labels and values of the controls of a form."""
        for control in forms.iter():
            told = [attribute(control, name) for name in ("label", "current-value")]
            if any(told):
                self.pieces.append(Text(" ".join(": ".join(filter(None, told)).split()) + "\n"))

    def _frame(self, frame: Element) -> None:
        """Read a frame: it holds one content in several forms, the best one first."""
        content = next(iter(frame), None)
        if content is not None:
            self.read_one(content)
        for told in ("title", "desc"):
            words = find(frame, told)
            if words is not None and (text := " ".join("".join(words.itertext()).split())):
                self.pieces.append(Text(f"[{text}]\n"))

    def _paragraph(self, element: Element, *, is_heading: bool) -> None:
        outer, self._words = self._words, []
        self._inline(element)
        text = "".join(self._words).strip()
        self._words = outer
        if text and (is_heading or attribute(element, "style-name") == "Title"):
            level = min(_number(element, "outline-level"), _MAX_LEVELS)
            label = self._label(level if is_heading else 0).removeprefix("-")
            self.pieces.append(Heading(level, f"{label} {text}".strip()))
        elif text and self._lists:
            mark = f"{self._label(0)} ".lstrip()
            self.pieces.append(Text(f"{'  ' * min(len(self._lists) - 1, 8)}{mark}{text}\n"))
        elif text:
            self.pieces.append(Text(f"{text}\n\n"))
        self._end_paragraph()

    def _end_paragraph(self) -> None:
        if self._after:
            self.pieces.append(Text("".join(self._after) + "\n"))
            self._after.clear()

    def _inline(self, element: Element) -> None:
        self._words.append(_folded(element.text))
        for child in element:
            match local_name(child):
                case "s":
                    count = attribute(child, "c")
                    self._words.append(" " * (min(int(count), _MAX_BLANKS) if count.isdecimal() else 1))
                case "tab":
                    self._words.append("\t")
                case "line-break":
                    self._words.append("\n")
                case "note":
                    mark = "".join(
                        "".join(one.itertext()) for one in children(child, "note-citation")
                    ).strip()
                    self._words.append(f"[{mark}]")
                    self._after.append(f"[{mark}] {self._inside(find(child, 'note-body'))}\n")
                case "annotation":
                    self._after.append(f"[{_annotation(child)}]\n")
                case "frame" | "custom-shape" | "text-box" | "rect" | "g" | "line" | "ellipse" | "object":
                    if (inside := self._inside(child, is_shape=True)).strip():
                        self._after.append(inside)
                case name if name not in _SILENT:
                    self._inline(child)
            self._words.append(_folded(child.tail))

    def _inside(self, element: Element | None, *, is_shape: bool = False) -> str:
        """Return the text of a footnote or of a shape within a paragraph."""
        flow = _Flow(self.numbers)
        if element is not None:
            (flow.read_one if is_shape else flow.read)(element)
        self.pictures += flow.pictures
        lines = text_of(flow.pieces)
        return lines if is_shape else " ".join(lines.split())

    def _table(self, element: Element) -> list[list[str]]:
        """Return the cells of a table."""
        table = []
        for part in element:
            match local_name(part):
                case "table-header-rows" | "table-rows" | "table-row-group":
                    table += self._table(part)
                case "table-row":
                    row: list[str] = []
                    for cell in part:
                        # A cell that is covered by a merged one keeps its column.
                        if local_name(cell) in ("table-cell", "covered-table-cell"):
                            text = self._inside(cell, is_shape=False)
                            count = attribute(cell, "number-columns-repeated")
                            times = int(count) if count.isdecimal() else 1
                            row += [text] * min(times, _MAX_COLUMNS - len(row))
                    table.append(row)
        return table


def _annotation(element: Element) -> str:
    """Return `Ann: text` of a comment."""
    flow = _Flow()
    flow.read(element)
    creator = find(element, "creator")
    name = "".join(creator.itertext()).strip() if creator is not None else ""
    words = " ".join(text_of(flow.pieces).split())
    return f"{name or 'Comment'}: {words}"


def _number(element: Element, name: str) -> int:
    """Return an attribute that is a number, 1 without one."""
    value = attribute(element, name)[:9]
    return int(value) if value.isdecimal() else 1


def _folded(text: str | None) -> str:
    """Return text with its runs of white space as one blank, as the format has it."""
    if not text:
        return ""
    folded = " ".join(text.split())
    if not folded:
        return " "
    return (" " if text[0].isspace() else "") + folded + (" " if text[-1].isspace() else "")
