"""Reads PowerPoint slides in their order: titles, texts, tables, charts, notes and comments."""

from __future__ import annotations

import io
import zipfile
from collections.abc import Callable, Iterator, Mapping
from typing import BinaryIO

from rlm.documents.formats.archive import Archive, refuse_compound
from rlm.documents.formats.office.slides import Slide, master_pieces, slide_pieces
from rlm.documents.formats.office_xml.drawings import chart_text, diagram_text, drawn_paragraphs
from rlm.documents.formats.office_xml.xml import (
    Element,
    Link,
    children,
    find,
    links_of,
    local_name,
    parse_member,
    rows,
)
from rlm.documents.formats.piece import Ended, Piece, Unreadable
from rlm.lazy_dataclass import dataclass

__all__ = ["prepare", "read_pptx"]

_WHAT = "a PPTX"
_MAIN = "ppt/presentation.xml"
_SAMPLE = {
    "_rels/.rels": f"<r><l Id='a' Type='x/officeDocument' Target='{_MAIN}'/></r>",
    _MAIN: "<p><sldIdLst><sldId xmlns:r='r' r:id='a'/></sldIdLst></p>",
    "ppt/_rels/presentation.xml.rels": "<r><l Id='a' Type='x/slide' Target='slides/slide1.xml'/></r>",
    "ppt/slides/slide1.xml": "<p><cSld><spTree><sp><txBody><p><r><t>a</t></r></p></txBody></sp></spTree>"
    "</cSld></p>",
}


def prepare() -> None:
    """Import what reading needs, by reading a small document: later nothing can be opened."""
    sample = io.BytesIO()
    with zipfile.ZipFile(sample, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _SAMPLE.items():
            archive.writestr(name, text)
    list(read_pptx(sample, sample.seek(0, 2)))


def read_pptx(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each slide under a heading (`Slide 3: Prices`), then its notes and comments. Raises Unreadable.

    Hidden slides are read, and named so. A note names the slides with pictures whose words are not read.
    """
    refuse_compound(file, _WHAT, ".pptx")
    archive = Archive(file, size, _WHAT)
    main = next(
        (link.target for link in links_of(archive, "", _WHAT).values() if link.kind == "officeDocument"),
        _MAIN,
    )
    if main not in archive:
        raise Unreadable(
            "a zip archive but not a PPTX",
            "name a presentation, or unpack the archive and name its text files",
        )
    links = links_of(archive, main, _WHAT)
    authors = _authors(archive, links)
    order = find(parse_member(archive, main, _WHAT), "sldIdLst")
    targets = [links[key] for one in children(order, "sldId") if (key := _relation(one)) in links]
    yield from slide_pieces((_slide(archive, link.target, authors) for link in targets), _WHAT)
    yield from master_pieces(_masters(archive, [link.target for link in targets]))
    yield Ended()


def _masters(archive: Archive, slides: list[str]) -> Iterator[str]:
    """Yield the texts that the layouts and masters of these slides show on each of them."""
    seen: set[str] = set()
    waiting = slides
    for kind in ("slideLayout", "slideMaster"):
        found: list[str] = []
        for name in waiting:
            try:
                found += [
                    link.target for link in links_of(archive, name, _WHAT).values() if link.kind == kind
                ]
            except Unreadable:
                continue  # the slide is named as damaged
        waiting = list(dict.fromkeys(found))
        for name in waiting:
            if name in seen or name not in archive:
                continue
            seen.add(name)
            master = Slide()
            try:
                tree = find(parse_member(archive, name, _WHAT), "cSld", "spTree")
                _Shapes(archive, links_of(archive, name, _WHAT), master, is_master=True).read(tree)
            except Unreadable:
                continue
            yield from master.blocks


def _relation(element: Element, name: str = "id") -> str:
    """Return the id of a relation, which has a namespace; `id` itself is another number."""
    end = "}" + name
    return next((value for key, value in element.items() if key.endswith(end)), "")


def _slide(archive: Archive, name: str, authors: Mapping[str, str]) -> Slide:
    slide = Slide()
    try:
        root = parse_member(archive, name, _WHAT)
    except Unreadable:
        slide.is_broken = True
        return slide
    slide.is_hidden = root.get("show") in ("0", "false")
    try:
        links = links_of(archive, name, _WHAT)
    except Unreadable:
        slide.is_broken, links = True, {}
    _Shapes(archive, links, slide).read(find(root, "cSld", "spTree"))
    try:
        for link in links.values():
            if link.kind == "notesSlide":
                slide.notes = _notes(archive, link.target)
            elif link.kind == "comments":
                slide.comments += _comments(parse_member(archive, link.target, _WHAT), authors)
    except Unreadable:
        slide.is_broken = True
    return slide


@dataclass(slots=True)
class _Shapes:
    """Reads the shapes of one slide, in the order in which they lie on it."""

    archive: Archive
    links: Mapping[str, Link]
    slide: Slide
    is_master: bool = False
    """Whether its placeholders hold no text of the slides."""

    def read(self, tree: Element | None) -> None:
        for shape in tree if tree is not None else ():
            match local_name(shape):
                case "sp" | "cxnSp":
                    self._text(shape)
                case "grpSp":
                    self.read(shape)
                case "pic":
                    self._picture(shape)
                case "graphicFrame":
                    self._frame(shape)
                case "AlternateContent":
                    # The same content in a newer and an older form: the newer one comes first.
                    self.read(next(iter(shape), None))

    def _text(self, shape: Element) -> None:
        place = find(shape, "nvSpPr", "nvPr", "ph")
        kind = place.get("type", "") if place is not None else ""
        if kind == "sldNum" or (self.is_master and place is not None):
            return
        text = drawn_paragraphs(find(shape, "txBody"))
        if kind in ("title", "ctrTitle") and not self.slide.title:
            self.slide.title = text
        elif text.strip():
            self.slide.blocks.append(text)

    def _picture(self, shape: Element) -> None:
        blip = find(shape, "blipFill", "blip")
        link = None if blip is None else self.links.get(_relation(blip, "embed"))
        self.slide.pictures.append(link.target if link else "")
        named = find(shape, "nvPicPr", "cNvPr")
        if named is not None and (words := " ".join(named.get("descr", "").split())):
            self.slide.blocks.append(f"[{words}]\n")

    def _frame(self, frame: Element) -> None:
        data = find(frame, "graphic", "graphicData")
        for content in data if data is not None else ():
            match local_name(content):
                case "tbl":
                    table = [
                        [drawn_paragraphs(find(cell, "txBody")) for cell in children(row, "tc")]
                        for row in children(content, "tr")
                    ]
                    self.slide.blocks.append(rows(table))
                case "chart":
                    self._member(content, "id", chart_text)
                case "relIds":
                    self._member(content, "dm", diagram_text)
                case _:
                    self.slide.pictures.append("")

    def _member(self, element: Element, relation: str, read: Callable[[Element], str]) -> None:
        """Add the text of the member that an element names."""
        link = self.links.get(_relation(element, relation))
        try:
            self.slide.blocks.append(read(parse_member(self.archive, link.target if link else "", _WHAT)))
        except Unreadable:
            self.slide.pictures.append("")


def _notes(archive: Archive, name: str) -> str:
    """Return the speaker notes: the text of the body, without the picture of the slide and its number."""
    found = []
    for shape in children(find(parse_member(archive, name, _WHAT), "cSld", "spTree"), "sp"):
        place = find(shape, "nvSpPr", "nvPr", "ph")
        if place is None or place.get("type", "body") == "body":
            found.append(drawn_paragraphs(find(shape, "txBody")))
    return "".join(found)


def _authors(archive: Archive, links: Mapping[str, Link]) -> dict[str, str]:
    """Return the names of those who commented, by their ids."""
    found: dict[str, str] = {}
    for link in links.values():
        if link.kind in ("commentAuthors", "authors") and link.target in archive:
            for author in parse_member(archive, link.target, _WHAT):
                found[author.get("id", "")] = author.get("name", "")
    return found


def _comments(root: Element, authors: Mapping[str, str]) -> Iterator[str]:
    """Yield `Ann: text` for each comment and reply, in the older and the newer form."""
    for comment in root.iter():
        if local_name(comment) not in ("cm", "reply"):
            continue
        old = find(comment, "text")
        text = (old.text or "") if old is not None else drawn_paragraphs(find(comment, "txBody"))
        if text.strip():
            yield f"{authors.get(comment.get('authorId', ''), 'Comment')}: {' '.join(text.split())}\n"
