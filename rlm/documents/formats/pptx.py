"""Reads PowerPoint slides in their order: titles, texts, tables, charts, notes and comments."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from typing import BinaryIO

from rlm.documents.formats.flow import rows
from rlm.documents.formats.office_xml import (
    Archive,
    Element,
    Link,
    chart_text,
    children,
    diagram_text,
    drawn_paragraphs,
    find,
    local_name,
    refuse_compound,
)
from rlm.documents.formats.piece import Ended, Piece
from rlm.documents.formats.slides import Slide, master_pieces, slide_pieces

__all__ = ["read_pptx"]

_MAIN = "ppt/presentation.xml"


def read_pptx(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield each slide under a heading (`Slide 3: Prices`), then its notes and comments. Raises Fault.

    Hidden slides are read, and named so. A problem names the slides with pictures whose words are not read.
    """
    refuse_compound(file)
    archive = Archive(file, size)
    main = archive.main(_MAIN)
    links = archive.links(main)
    authors = _authors(archive, links)
    order = find(archive.xml(main), "sldIdLst")
    targets = [links[key] for one in children(order, "sldId") if (key := _relation(one)) in links]
    margins: list[str] = []
    yield from slide_pieces(_slide(archive, link.target, authors, margins) for link in targets)
    yield from master_pieces([*_masters(archive, [link.target for link in targets]), *margins])
    yield Ended()


def _masters(archive: Archive, slides: list[str]) -> Iterator[str]:
    """Yield the texts that the layouts and masters of these slides show on each of them."""
    seen: set[str] = set()
    waiting = slides
    for kind in ("slideLayout", "slideMaster"):
        found: list[str] = []
        for name in waiting:
            with suppress(Exception):  # the slide is named as damaged
                found += [link.target for link in archive.links(name).values() if link.kind == kind]
        waiting = list(dict.fromkeys(found))
        for name in waiting:
            if name in seen or name not in archive:
                continue
            seen.add(name)
            master = Slide()
            with suppress(Exception):  # whatever a library raises: no slide needs it
                tree = find(archive.xml(name), "cSld", "spTree")
                _Shapes(archive, archive.links(name), master, is_master=True).read(tree)
                yield from master.blocks


def _relation(element: Element, name: str = "id") -> str:
    """Return the id of a relation, which has a namespace; `id` itself is another number."""
    end = "}" + name
    return next((value for key, value in element.items() if key.endswith(end)), "")


def _slide(archive: Archive, name: str, authors: Mapping[str, str], margins: list[str]) -> Slide:
    """Return a slide. Add the headers and footers of its notes to `margins`."""
    slide = Slide()
    # Whatever a library raises, the other slides are read.
    try:
        root = archive.xml(name)
        slide.is_hidden = root.get("show") in ("0", "false")
        try:
            links = archive.links(name)
        except Exception:
            slide.is_broken, links = True, {}
        _Shapes(archive, links, slide).read(find(root, "cSld", "spTree"))
        for link in links.values():
            if link.kind == "notesSlide":
                slide.notes = _notes(archive, link.target, margins)
            elif link.kind == "comments":
                slide.comments += _comments(archive.xml(link.target), authors)
    except Exception:
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
        text = drawn_paragraphs(find(shape, "txBody"), self.links)
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
                        [drawn_paragraphs(find(cell, "txBody"), self.links) for cell in children(row, "tc")]
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
            self.slide.blocks.append(read(self.archive.xml(link.target if link else "")))
        except Exception:  # whatever a library raises
            self.slide.pictures.append("")


def _notes(archive: Archive, name: str, margins: list[str]) -> str:
    """Return the speaker notes: the text of the body, without the picture of the slide and its number."""
    found: list[str] = []
    for shape in children(find(archive.xml(name), "cSld", "spTree"), "sp"):
        place = find(shape, "nvSpPr", "nvPr", "ph")
        kind = "body" if place is None else place.get("type", "body")
        if kind in ("body", "hdr", "ftr"):
            (found if kind == "body" else margins).append(drawn_paragraphs(find(shape, "txBody")))
    return "".join(found)


def _authors(archive: Archive, links: Mapping[str, Link]) -> dict[str, str]:
    """Return the names of those who commented, by their ids."""
    found: dict[str, str] = {}
    for link in links.values():
        if link.kind in ("commentAuthors", "authors") and link.target in archive:
            for author in archive.xml(link.target):
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
