"""The output of a format reader, in the order of the document: text, headings, pages, notes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["LOOK_REMEDY", "Ended", "Heading", "Note", "Page", "Piece", "Text", "Unreadable"]


@dataclass(frozen=True, slots=True)
class Text:
    """The next text of the body."""

    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading on a line of its own; `level` 1 is the top."""

    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Page:
    """The begin of a page. Text follows, at least a line end."""


@dataclass(frozen=True, slots=True)
class Note:
    """A fault of the document and its remedy, in one line."""

    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the document. `replaced` and `guessed` are as in `rlm.documents.encoding`."""

    replaced: int = 0
    guessed: str | None = None


Piece = Text | Heading | Page | Note | Ended


LOOK_REMEDY = "let a model look at it: a --sub-model that sees, and pip install 'rlm-kernel[vision]'"
"""What to do with pages and pictures that hold no text."""


class Unreadable(Exception):
    """A document that cannot be read. The message follows "is"."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy
