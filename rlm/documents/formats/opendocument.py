"""Reads OpenDocument texts and presentations: headings, paragraphs, lists, tables, footnotes, slides."""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.formats.flow import Flow, link_target, rows
from rlm.documents.formats.numbering import FORMS, written
from rlm.documents.formats.office_xml import (
    Archive,
    Element,
    attribute,
    children,
    find,
    local_name,
    number,
    parse,
    unread_pictures,
)
from rlm.documents.formats.piece import Ended, Fault, Heading, Piece, Problem, Text
from rlm.documents.formats.slides import Slide, master_pieces, slide_pieces

__all__ = ["Words", "annotation_of", "read_odp", "read_odt"]

_CONTENT, _STYLES, _MANIFEST = "content.xml", "styles.xml", "META-INF/manifest.xml"
_MAX_BLANKS = 200
_MAX_COLUMNS = 1_000
_MAX_LEVELS = 10
_MARGIN = re.compile(r"(?:header|footer)(?:-left|-first)?")
_SILENT = frozenset(
    (
        "tracked-changes", "sequence-decls", "variable-decls", "user-field-decls", "settings",
        "annotation-end", "bookmark", "bookmark-start", "bookmark-end", "alphabetical-index-mark", "title",
        "desc",
    )
)  # fmt: skip
"""What stands in the text, but is not shown in it."""


def read_odt(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a text document, footnotes below their paragraph, and the headers and
    footers of its pages at the end. Raises Fault."""
    content, styles = _open(file, size)
    body = find(content, "body", "text")
    if body is None:
        raise Fault("foreign", "it holds no text document", "save it as .odt")
    words = Words(_Numbers(content, styles))
    words.read(body)
    margins = list(dict.fromkeys(_margins(styles)))
    yield from words.flow.pieces
    if margins:
        yield Heading(1, "Headers and footers")
        yield Text("".join(margins))
    if words.deleted:
        what = f"{words.deleted:,} deletions that are only proposed are read as deleted"
        yield Problem(what, "accept or reject them")
    yield from unread_pictures(words.pictures)
    yield Ended()


def read_odp(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each slide under a heading (`Slide 3: Prices`), then its notes and comments. Raises Fault."""
    content, styles = _open(file, size)
    body = find(content, "body", "presentation")
    if body is None:
        raise Fault("foreign", "it holds no presentation", "save it as .odp")
    hidden = {
        attribute(style, "name")
        for root in (content, styles)
        for style in children(find(root, "automatic-styles"), "style")
        for facts in children(style, "drawing-page-properties")
        if attribute(facts, "visibility") == "hidden"
    }
    yield from slide_pieces(_slide(page, hidden) for page in children(body, "page"))
    yield from master_pieces(_masters(body, styles))
    yield Ended()


def _open(file: BinaryIO, size: int) -> tuple[Element, Element | None]:
    """Return the content and the styles. A flat document is one XML file. Raises Fault."""
    if file.read(4) != b"PK\x03\x04" and b"<" in (file.seek(0), file.read(200))[1]:
        file.seek(0)
        root = parse(file.read())
        return root, root
    archive = Archive(file, size)
    if _CONTENT not in archive:
        raise Fault("foreign", "a zip archive", "unpack the archive and name its text files")
    if _MANIFEST in archive and b"encryption-data" in archive.read(_MANIFEST):
        raise Fault("locked")
    return archive.xml(_CONTENT), archive.xml(_STYLES) if _STYLES in archive else None


def _margins(styles: Element | None) -> Iterator[str]:
    """Yield the text of each header and footer."""
    for page in children(find(styles, "master-styles"), "master-page"):
        for part in page:
            if _MARGIN.fullmatch(local_name(part)):
                text = _text_of(part)
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
                words = Words()
                words.read_one(shape)
                yield words.flow.text()


def _slide(page: Element, hidden: set[str]) -> Slide:
    slide = Slide(is_hidden=attribute(page, "style-name") in hidden)
    for shape in page:
        words = Words()
        words.read_one(shape)
        text = words.flow.text()
        slide.pictures += words.pictures
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
                shown.append(written(value, FORMS.get(form, "decimal")))
        return f"{attribute(facts, 'num-prefix')}{'.'.join(shown)}{attribute(facts, 'num-suffix')}".strip()

    def _start(self, style: str, level: int) -> int:
        facts = self._levels.get((style, level))
        return 1 if facts is None else _number(facts, "start-value")


class Words:
    """Collects the text below an element. A paragraph is one line."""

    def __init__(self, numbers: _Numbers | None = None) -> None:
        self.numbers = numbers or _Numbers()
        self.flow = Flow()
        self.pictures: list[str] = []
        """The file of each picture and embedded object, "" if it has none."""
        self.deleted = 0
        self._lists: list[str] = []
        """The styles of the lists that are open."""
        self._start: int | None = None
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
                if text := rows(self._table(element)).rstrip("\n"):
                    self.flow.put(text)
            case "forms":
                for control in element.iter():
                    told = filter(None, (attribute(control, name) for name in ("label", "current-value")))
                    if text := " ".join(": ".join(told).split()):
                        self.flow.put(text, is_apart=False)
            case "tracked-changes":
                self.deleted += sum(local_name(one) == "deletion" for one in element.iter())
            case "annotation":
                self.flow.put(f"[{_annotation(element)}]")
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
            is_item = local_name(item) == "list-item"
            self._start = (number(item, "start-value") or 0) if is_item else None
            self.read(item)
        self._lists.pop()

    def _label(self, level: int) -> str:
        """Return what stands before the text of a paragraph, of a heading if it has a level."""
        if self._lists and self._start is not None:
            start, self._start = self._start, None
            return self.numbers.label(self._lists[-1], len(self._lists), start)
        return self.numbers.label(_OUTLINE, level).removeprefix("-") if level and not self._lists else ""

    def _frame(self, frame: Element) -> None:
        """Read a frame: it holds one content in several forms, the best one first."""
        content = next(iter(frame), None)
        if content is not None:
            self.read_one(content)
        for told in ("title", "desc"):
            words = find(frame, told)
            if words is not None and (text := " ".join("".join(words.itertext()).split())):
                self.flow.put(f"[{text}]", is_apart=False)

    def _paragraph(self, element: Element, *, is_heading: bool) -> None:
        words: list[str] = []
        self._inline(element, words)
        text = "".join(words).strip()
        if text and (is_heading or attribute(element, "style-name") == "Title"):
            level = min(_number(element, "outline-level"), _MAX_LEVELS)
            label = self._label(level if is_heading else 0).removeprefix("-")
            self.flow.put(f"{label} {text}".strip(), level=level, is_apart=False)
        elif text and self._lists:
            mark = f"{self._label(0)} ".lstrip()
            self.flow.put(f"{'  ' * min(len(self._lists) - 1, 8)}{mark}{text}", is_apart=False)
        elif text:
            self.flow.put(text)
        self.flow.end_notes()

    def _inline(self, element: Element, words: list[str]) -> None:
        words.append(_folded(element.text))
        for child in element:
            match local_name(child):
                case "s":
                    count = number(child, "c")
                    words.append(" " * (1 if count is None else min(count, _MAX_BLANKS)))
                case "tab":
                    words.append("\t")
                case "line-break":
                    words.append("\n")
                case "note":
                    mark = "".join(
                        "".join(one.itertext()) for one in children(child, "note-citation")
                    ).strip()
                    words.append(f"[{mark}]")
                    self.flow.add_after(f"[{mark}] {self._inside(find(child, 'note-body'))}")
                case "annotation":
                    self.flow.add_after(f"[{_annotation(child)}]")
                case "frame" | "custom-shape" | "text-box" | "rect" | "g" | "line" | "ellipse" | "object":
                    self.flow.add_after(self._inside(child, is_shape=True))
                case "a":
                    inside: list[str] = []
                    self._inline(child, inside)
                    words += [*inside, link_target(attribute(child, "href"), "".join(inside))]
                case name if name not in _SILENT:
                    self._inline(child, words)
            words.append(_folded(child.tail))

    def _inside(self, element: Element | None, *, is_shape: bool = False) -> str:
        """Return the text of a footnote, of a cell, or of a shape within a paragraph."""
        inside = Words(self.numbers)
        if element is not None:
            (inside.read_one if is_shape else inside.read)(element)
        self.pictures += inside.pictures
        lines = inside.flow.text()
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
                            times = _number(cell, "number-columns-repeated")
                            row += [self._inside(cell)] * min(times, _MAX_COLUMNS - len(row))
                    table.append(row)
        return table


def _text_of(element: Element) -> str:
    """Return the text of a part of its own."""
    words = Words()
    words.read(element)
    return words.flow.text()


def annotation_of(element: Element) -> tuple[str, str]:
    """Return the author and the words of a comment."""
    creator = find(element, "creator")
    name = "".join(creator.itertext()).strip() if creator is not None else ""
    return name, " ".join(_text_of(element).split())


def _annotation(element: Element) -> str:
    """Return `Ann: text` of a comment."""
    name, text = annotation_of(element)
    return f"{name or 'Comment'}: {text}"


def _number(element: Element, name: str) -> int:
    """Return an attribute that is a number, 1 without one."""
    found = number(element, name)
    return 1 if found is None else found


def _folded(text: str | None) -> str:
    """Return text with its runs of white space as one blank, as the format has it."""
    if not text:
        return ""
    folded = " ".join(text.split())
    if not folded:
        return " "
    return (" " if text[0].isspace() else "") + folded + (" " if text[-1].isspace() else "")
