"""The output of a format reader, in the order of the document: text, headings, pages, notes.

A file may hold several documents: an archive, a workbook, a mail with attachments. Its reader yields a Member
before the pieces of each. What comes before the first one belongs to the file itself.
"""

from __future__ import annotations

from collections.abc import Iterable

from rlm.lazy_dataclass import dataclass
from rlm.version import install_command

__all__ = [
    "LOOK_REMEDY",
    "RECOGNIZE_REMEDY",
    "Data",
    "Ended",
    "Heading",
    "Member",
    "Note",
    "Page",
    "Piece",
    "Text",
    "Unread",
    "Unreadable",
    "text_of",
]


@dataclass(frozen=True, slots=True)
class Text:
    """The next text of the body, such as a paragraph or a row."""

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
    """A fault of the document and its remedy, in one line. Before the first Member it is about the file.

    A document with a note counts as read in part. With `is_remark` all of its text was read, and the line
    says what the user should know of it.
    """

    message: str
    is_remark: bool = False


@dataclass(frozen=True, slots=True)
class Member:
    """From here on the pieces belong to a document of its own, named `<file>/<name>`.

    With a `kind` (as `Document.kind`), its Text, Heading and Page pieces follow. Without one, the bytes of
    its file follow as Data; the loader finds out their kind. Without a `name` it is the whole content of the
    file, which is only packed: it keeps the file's name. Any name is good: the loader makes it safe and
    unique.
    """

    name: str
    kind: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    """The next bytes of the member's file."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Unread:
    """The member, or the rest of it, cannot be read. The reason follows "is"."""

    reason: str
    remedy: str


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the file. `replaced` and `guessed` are as in `rlm.documents.encoding`."""

    replaced: int = 0
    guessed: str | None = None


Piece = Text | Heading | Page | Note | Member | Data | Unread | Ended


def text_of(pieces: Iterable[Piece]) -> str:
    """Return the text of the pieces, each title on a line."""
    return "".join(
        f"{one.title}\n" if isinstance(one, Heading) else one.text
        for one in pieces
        if isinstance(one, Text | Heading)
    )


LOOK_REMEDY = f"let a model look at it: a --sub-model that sees, and {install_command('vision')}"
"""What to do with pages and pictures that hold no text."""


RECOGNIZE_REMEDY = f"have its words recognized: {install_command('ocr')}"
"""The same without a model that sees."""


class Unreadable(Exception):
    """A document that cannot be read. The message follows "is"."""

    def __init__(self, reason: str, remedy: str) -> None:
        super().__init__(reason)
        self.remedy = remedy

    @property
    def cut_note(self) -> str:
        """What a reader of the rest is told if only the first part was read."""
        return f"only its first part was read, because it is {self}: {self.remedy}"
