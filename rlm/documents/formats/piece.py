"""What a reader of a format gives, in the order of the document: text, headings, pages, notes."""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["Ended", "Heading", "Note", "Page", "Piece", "Text", "Unreadable"]


@dataclass(frozen=True, slots=True)
class Text:
    """The next of the text, as it is to stand in the body."""

    text: str


@dataclass(frozen=True, slots=True)
class Heading:
    """A heading on a line of its own; `level` 1 is the top."""

    level: int
    title: str


@dataclass(frozen=True, slots=True)
class Page:
    """A page begins. Some text follows, if only a line end."""


@dataclass(frozen=True, slots=True)
class Note:
    """What is to be said of the document: the fault and the remedy, in one line."""

    message: str


@dataclass(frozen=True, slots=True)
class Ended:
    """All was read. `replaced` and `guessed` are of the decoding, as in `rlm.documents.encoding`."""

    replaced: int = 0
    guessed: str | None = None


Piece = Text | Heading | Page | Note | Ended


class Unreadable(Exception):
    """Why a document can't be read (words that follow "is"), and what helps."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy
