"""Reads what mammoth drops of a Word document: margins, comments, text boxes, charts, equations, fields.

Its parts are walked as mammoth walks them. A paragraph in an element that it does not know is read here, and
so is one whose words are not in what it gave.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field

from rlm.documents.formats.archive import Archive
from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.office_xml.drawings import chart_text, count_pictures, diagram_text
from rlm.documents.formats.office_xml.xml import (
    Element,
    Link,
    attribute,
    children,
    find,
    links_of,
    local_name,
    parse_member,
)
from rlm.documents.formats.piece import Ended, Heading, Note, Piece, Text, Unreadable
from rlm.lazy_dataclass import dataclass

__all__ = ["main_part", "pieces_beside"]

_WHAT = "a DOCX"
_MAIN = "word/document.xml"


def _words(names: str) -> frozenset[str]:
    return frozenset(names.split())


_KNOWN = _words(
    "document body r p tbl tr tc customXml ins moveTo object smartTag drawing group rect roundrect shape "
    "textbox txbxContent pict hyperlink sdt sdtContent AlternateContent Fallback hdr ftr footnote endnote "
    "comment"
)
"""The elements that mammoth reads, if all around them are known, too."""
_PROPERTIES = _words("pPr rPr sectPr tblPr tblGrid tcPr sdtPr sdtEndPr instrText delText")
_GAPS = _words("sym footnoteReference endnoteReference commentReference drawing pict object fldChar")
"""Elements within a paragraph at which mammoth may write something of its own."""
_LETTERS = {"tab": "\t", "br": "\n", "cr": "\n", "noBreakHyphen": "\u2011", "softHyphen": "\u00ad"}
_GAP = "\0"
_SEARCHED = 1_000_000_000
"""Characters that are searched for words of paragraphs, in all. Beyond it, they are read twice."""
_PAGE_NUMBER = re.compile(r"\W*\d{0,4}\W*")
_MARKUP = (".htm", ".html", ".xhtml")


def main_part(archive: Archive) -> str:
    """Return the member that holds the text."""
    links = links_of(archive, "", _WHAT).values() if "_rels/.rels" in archive else ()
    return next((link.target for link in links if link.kind == "officeDocument"), _MAIN)


def pieces_beside(archive: Archive, shown: Iterable[Piece]) -> Iterator[Piece]:
    """Yield what a document holds besides the pieces `shown`, each kind under a heading, notes about what is
    not read, and the end. Raises Unreadable or RecursionError for a damaged document."""
    main = main_part(archive)
    links = links_of(archive, main, _WHAT)
    root = parse_member(archive, main, _WHAT)
    library = _Shown(_squashed("".join(map(_words_of, shown))))
    text = _Part(archive, links)
    text.walk(root)
    boxes = [one.text for one in text.paragraphs if one.is_dropped or not library.holds(one)]
    notes: list[str] = []
    margins: list[str] = []
    comments: list[str] = []
    faults: list[str] = []
    referred = {
        (local_name(one).removesuffix("Reference"), attribute(one, "id"))
        for one in root.iter()
        if local_name(one) in ("footnoteReference", "endnoteReference")
    }
    for link in links.values():
        if link.kind not in ("footnotes", "endnotes", "header", "footer", "comments"):
            continue
        try:
            part = _Part(archive, links_of(archive, link.target, _WHAT))
            member = parse_member(archive, link.target, _WHAT)
            match link.kind:
                case "comments":
                    comments += _comments(part, member)
                case "header" | "footer":
                    part.walk(member)
                    margins += [one.text for one in part.paragraphs if not _PAGE_NUMBER.fullmatch(one.text)]
                case kind:
                    for note in member:
                        is_shown = (kind.removesuffix("s"), attribute(note, "id")) in referred
                        part.walk(note)
                        held = part.take()
                        notes += [
                            one.text
                            for one in held
                            if one.is_dropped or not (is_shown and library.holds(one))
                        ]
        except (Unreadable, RecursionError):
            faults.append(
                f"its part {link.target[:80]} is damaged and was not read: save it again in its program"
            )
        else:
            if link.kind not in ("header", "footer"):
                text.count(part)  # a letterhead is on every page: its picture is no part of the text
    yield from _section("Text boxes and other text", boxes)
    yield from text.chunks
    yield from _section("Notes", notes)
    yield from _section("Headers and footers", dict.fromkeys(margins))
    yield from _section("Comments", comments)
    yield from map(Note, faults)
    yield from text.notes()
    yield text.ended


def _section(title: str, lines: Iterable[str]) -> Iterator[Piece]:
    lines = list(lines)
    if lines:
        yield Heading(1, title)
        yield Text("".join(f"{line}\n" for line in lines))


def _comments(part: _Part, root: Element) -> Iterator[str]:
    """Yield `Ann: text` for each comment."""
    for comment in children(root, "comment"):
        part.walk(comment)
        if words := " ".join(one.text for one in part.take()):
            yield f"{attribute(comment, 'author') or 'Comment'}: {words}"


@dataclass(frozen=True, slots=True)
class _Paragraph:
    """The words of a paragraph. `is_dropped` tells that mammoth does not read all of it."""

    words: str
    is_dropped: bool

    @property
    def text(self) -> str:
        return " ".join(self.words.replace(_GAP, "").split())


@dataclass(slots=True)
class _Part:
    """Collects the paragraphs of one part of the document, and counts what cannot be read."""

    archive: Archive
    links: Mapping[str, Link]
    paragraphs: list[_Paragraph] = field(default_factory=list)
    chunks: list[Piece] = field(default_factory=list)
    """Documents of other formats that are put in: pages of HTML."""
    pictures: list[str] = field(default_factory=list)
    """The file of each picture and embedded object, "" if it has none."""
    deleted: int = 0
    ended: Ended = Ended()
    """What was replaced and guessed in the documents that are put in."""

    def walk(self, element: Element, *, is_dropped: bool = False) -> None:
        """Collect the paragraphs below an element."""
        for child in element:
            if local_name(child) == "p":
                self._add(child, is_dropped=is_dropped)
            elif (inner := self._entered(child, is_dropped=is_dropped)) is not None:
                self.walk(inner[0], is_dropped=inner[1])

    def take(self) -> list[_Paragraph]:
        """Return the paragraphs and forget them."""
        taken, self.paragraphs = self.paragraphs, []
        return taken

    def count(self, other: _Part) -> None:
        """Add what another part could not read."""
        self.pictures += other.pictures
        self.deleted += other.deleted

    def notes(self) -> Iterator[Note]:
        """Yield what the user must know."""
        if self.deleted:
            deletions = "1 deletion that is only proposed is" if self.deleted == 1 else (
                f"{self.deleted:,} deletions that are only proposed are"
            )  # fmt: skip
            yield Note(f"{deletions} read as deleted: accept or reject the changes")
        if pictures := count_pictures(self.pictures):
            yield Note(
                f"the words in pictures and embedded objects were not read ({pictures:,}): "
                "export it as PDF if they matter"
            )

    def _entered(self, element: Element, *, is_dropped: bool) -> tuple[Element, bool] | None:
        """Return the element to walk in place of one, and whether mammoth drops it; None to leave it out."""
        name = local_name(element)
        match name:
            case "del" | "moveFrom":
                self.deleted += name == "del" and any(local_name(one) == "delText" for one in element.iter())
                return None
            case "tr" if find(element, "trPr", "del") is not None:
                self.deleted += 1
                return None
            case "AlternateContent":
                # The same content for newer and older programs. mammoth reads the older form.
                older = find(element, "Fallback")
                if older is not None and any(local_name(one) == "t" for one in older.iter()):
                    return older, is_dropped
                newer = find(element, "Choice")
                return None if newer is None else (newer, True)
            case "blip" | "imagedata":
                link = self.links.get(attribute(element, "embed") or attribute(element, "id"))
                self.pictures.append(link.target if link else "")
                return None
            case "chart" | "relIds":
                self._drawing(element, is_chart=name == "chart")
                return None
            case "altChunk":
                self._chunk(element)
                return None
        if name in _PROPERTIES:
            return None
        return element, is_dropped or name not in _KNOWN

    def _add(self, paragraph: Element, *, is_dropped: bool) -> None:
        """Add a paragraph, and after it those in its text boxes."""
        words: list[str] = []
        boxes: list[tuple[Element, bool]] = []
        has_dropped = self._inline(paragraph, words, boxes, is_dropped=is_dropped)
        text = "".join(words)
        if text.strip(f"{_GAP} \t\n"):
            self.paragraphs.append(_Paragraph(text, has_dropped))
        for box, is_box_dropped in boxes:
            self.walk(box, is_dropped=is_box_dropped)

    def _inline(
        self, element: Element, words: list[str], boxes: list[tuple[Element, bool]], *, is_dropped: bool
    ) -> bool:
        """Collect the words below an element of a paragraph. Return whether mammoth drops some of them."""
        has_dropped = False
        for child in element:
            name = local_name(child)
            if name in _GAPS:
                words.append(_GAP)
            if name == "t":
                words.append(child.text or "")
                has_dropped |= is_dropped and bool((child.text or "").strip())
            elif name in _LETTERS:
                words.append(_LETTERS[name])
            elif name == "txbxContent":
                boxes.append((child, is_dropped))
            elif name == "p":
                boxes.append((_wrapped(child), is_dropped))
            elif name == "ddList" and (chosen := _chosen(child)):
                words.append(f"{chosen} ")
                has_dropped = True
            elif (inner := self._entered(child, is_dropped=is_dropped)) is not None:
                has_dropped |= self._inline(inner[0], words, boxes, is_dropped=inner[1])
        return has_dropped

    def _drawing(self, element: Element, *, is_chart: bool) -> None:
        """Add the lines of a chart or a SmartArt drawing."""
        relation = attribute(element, "id" if is_chart else "dm")
        link = self.links.get(relation)
        try:
            root = parse_member(self.archive, link.target if link else "", _WHAT)
        except Unreadable:
            self.pictures.append("")
            return
        text = chart_text(root) if is_chart else diagram_text(root)
        if text.strip():
            # A line each, with the blanks that stand for an empty cell.
            self.paragraphs += [
                _Paragraph(line, is_dropped=True) for line in text.splitlines() if line.strip()
            ]
        else:
            self.pictures.append("")

    def _chunk(self, element: Element) -> None:
        link = self.links.get(attribute(element, "id"))
        if link is None or not link.target.lower().endswith(_MARKUP):
            self.pictures.append("")
            return
        try:
            markup, replaced, guessed = decode_markup(self.archive.read(link.target))
            self.chunks += pieces_of_markup(markup, titled=False)
        except Unreadable:
            self.pictures.append("")
        else:
            self.ended = Ended(self.ended.replaced + replaced, self.ended.guessed or guessed)


def _wrapped(paragraph: Element) -> Element:
    whole = Element("txbxContent")
    whole.append(paragraph)
    return whole


def _chosen(choices: Element) -> str:
    """Return the chosen entry of a list in a form."""
    entries = [attribute(one, "val") for one in children(choices, "listEntry")]
    result = find(choices, "result")
    number = attribute(result, "val") if result is not None else "0"
    return entries[int(number)] if number.isdecimal() and int(number) < len(entries) else ""


def _words_of(piece: Piece) -> str:
    match piece:
        case Heading(_, title):
            return f"{title}\n"
        case Text(text):
            return text
    return ""


def _squashed(text: str) -> str:
    return "".join(text.split()).replace("\u00ad", "")


class _Shown:
    """The text that mammoth gave, in which the words of paragraphs are looked for from one to the next."""

    def __init__(self, text: str) -> None:
        self._text = text
        self._at = 0
        self._left = _SEARCHED

    def holds(self, paragraph: _Paragraph) -> bool:
        """Return whether each part of a paragraph stands in the text."""
        return all(self._find(_squashed(words)) for words in paragraph.words.split(_GAP))

    def _find(self, words: str) -> bool:
        if self._left < 0:
            return not words
        found = self._text.find(words, self._at)
        if found < 0:
            self._left -= 2 * len(self._text)
            found = self._text.find(words)
        else:
            self._left -= found - self._at
        if found < 0:
            return False
        self._at = found + len(words)
        return True
