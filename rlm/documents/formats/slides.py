"""The pieces of a presentation, whatever program made it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

from rlm.documents.formats.piece import Fault, Heading, Piece, Problem, Text

__all__ = ["Slide", "master_pieces", "slide_pieces"]

_MAX_TITLE = 150
_NAMED = 20
"""Slides that a note names by their numbers."""


@dataclass(slots=True)
class Slide:
    """What a slide holds. `blocks` are its paragraphs and tables, in order, each with its line ends.
    `pictures` are the files of pictures and embedded objects whose words cannot be read here, "" without
    one."""

    title: str = ""
    blocks: list[str] = field(default_factory=list)
    notes: str = ""
    comments: list[str] = field(default_factory=list)
    pictures: list[str] = field(default_factory=list)
    is_hidden: bool = False
    is_broken: bool = False
    """Whether a part of it is damaged."""

    @property
    def has_text(self) -> bool:
        """Whether it holds any words."""
        return any(text.strip() for text in (self.title, self.notes, *self.blocks, *self.comments))


def slide_pieces(slides: Iterable[Slide]) -> Iterator[Piece]:
    """Yield each slide under a heading such as `Slide 3: Prices (hidden)`, then notes and comments under
    headings below it. Raises Fault if no slide can be read."""
    count = 0
    broken: list[int] = []
    pictured: list[int] = []
    known: set[str] = set()
    held: list[Piece] = []
    is_empty = True
    for count, slide in enumerate(slides, 1):
        if slide.is_broken:
            broken.append(count)
        # A picture that is shown again, such as a logo, is named at its first slide.
        if any(not file or file not in known for file in slide.pictures):
            pictured.append(count)
        known.update(slide.pictures)
        held += _pieces(slide, count)
        if slide.has_text:
            # The headings of slides before it: alone they are no text of the document.
            yield from held
            held.clear()
            is_empty = False
    if broken and is_empty:
        raise Fault("damaged", "no slide can be read")
    if is_empty:
        if not known:
            raise Fault("bare", "its slides are empty")
        remedy = "export it as PDF and run text recognition over it (ocrmypdf does)"
        raise Fault("bare", "pictures?", remedy)
    yield from held
    if broken:
        what = f"damaged slides were not read whole (slides: {_numbers(broken)})"
        yield Problem(what, "save it again in its program")
    if pictured:
        what = f"the words in pictures and embedded objects were not read (slides: {_numbers(pictured)})"
        yield Problem(what, "export it as PDF if they matter")


def master_pieces(texts: Iterable[str]) -> Iterator[Piece]:
    """Yield the texts that stand on every slide, under a heading of their own."""
    texts = [text for text in dict.fromkeys(texts) if any(map(str.isalnum, text))]
    if texts:
        yield Heading(1, "On every slide")
        yield Text("".join(f"{text.rstrip()}\n" for text in texts))


def _pieces(slide: Slide, number: int) -> Iterator[Piece]:
    title = " ".join(slide.title.split())
    shown = title if len(title) <= _MAX_TITLE else f"{title[:_MAX_TITLE]}…"
    name = f"Slide {number}" + (f": {shown}" if shown else "") + (" (hidden)" if slide.is_hidden else "")
    yield Heading(1, name)
    body = "".join(slide.blocks)
    if title != shown:
        body = f"{title}\n{body}"
    if body.strip():
        yield Text(f"{body.rstrip()}\n\n")
    elif title:
        # A slide may be its title alone.
        yield Text("\n")
    for heading, text in (("Speaker notes", slide.notes), ("Comments", "".join(slide.comments))):
        if text.strip():
            yield Heading(2, heading)
            yield Text(f"{text.rstrip()}\n\n")


def _numbers(slides: list[int]) -> str:
    more = len(slides) - _NAMED
    return ", ".join(map(str, slides[:_NAMED])) + (f" and {more:,} more" if more > 0 else "")
