"""The output of a format reader, in the order of the document: text, headings, pages, problems.

A file may hold several documents: an archive, a workbook, a mail with attachments. Its reader yields a Member
before the pieces of each. What comes before the first one belongs to the file itself.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Literal

from rlm.version import install_command

__all__ = [
    "LOOK_REMEDY",
    "RECOGNIZE_REMEDY",
    "Data",
    "Ended",
    "Fault",
    "Heading",
    "Kind",
    "Member",
    "NotRead",
    "Page",
    "Piece",
    "Problem",
    "Text",
    "text_of",
]

LOOK_REMEDY = f"let a model look at it: a --sub-model that sees, and {install_command('vision')}"
"""What to do with pages and pictures that hold no text."""
RECOGNIZE_REMEDY = f"have its words recognized: {install_command('ocr')}"
"""The same without a model that sees."""

Kind = Literal["missing", "partial", "other", "nothing", "remark", "encoding"]
"""What a problem means for the text: the document is missing, or a part of it; the file is no document (a
program, a picture); it holds nothing (empty, a link); all was read, with a remark or in an encoding
that was guessed."""


@dataclass(frozen=True, slots=True)
class Problem:
    """What the user should know of a document. For a document that is missing, `what` follows "is"; for one
    in a guessed encoding, it is that encoding. `document` is filled in by the loader."""

    what: str
    remedy: str = ""
    kind: Kind = "partial"
    document: str = ""


class NotRead(Exception):
    """A document, or the rest of it, cannot be read. The message follows "is"."""

    def __init__(
        self, what: str, remedy: str = "name a file that holds text", kind: Kind = "missing"
    ) -> None:
        super().__init__(what)
        self.problem = Problem(what, remedy, kind)


_AGAIN = "get it again, or open it in its program and save it again"
_FAULTS = {
    "damaged": ("{} that is damaged or truncated", _AGAIN),
    "strange": ("{} that its reader does not understand", "open it in its program and save it again"),
    "locked": ("{} protected by a password", "save a copy without one"),
    "large": ("{} that is too large to be read", "unpack or split it yourself if you trust it"),
    "slow": ("{} that is too complex for its size: it takes too long to read", _AGAIN + " as text"),
    "deep": ("{} nested too deeply", "open it in its program and save it again"),
    "bare": ("{} without any text", "name a file that holds text"),
    "old": ("{} of a version that is not read", _AGAIN),
    "other": ("{}, whose reader is not installed", "convert it to a format that is read"),
    "foreign": ("not {}, whatever its name says", "name it by what it is, or save it again"),
}
"""Why a document cannot be read, after "is", and the remedy."""


class Fault(Exception):
    """Raised by a reader, which need not say of what: a name in the table of faults, what there is to add,
    and a better remedy. Any other exception of a reader means that the document is damaged."""

    def __init__(self, name: str, detail: str = "", remedy: str = "") -> None:
        super().__init__(name, detail, remedy)
        self.name, self.detail, self.remedy = name, detail, remedy

    def of(self, article: str) -> NotRead:
        """Return the fault of a document, which `article` names (`a PDF`)."""
        what, remedy = _FAULTS.get(self.name, _FAULTS["damaged"])
        detail = f" ({self.detail})" if self.detail else ""
        return NotRead(what.format(article) + detail, self.remedy or remedy)


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
class Member:
    """From here on the pieces belong to a document of its own, named `<file>/<name>`.

    With a `kind` (as `Document.kind`), its Text, Heading and Page pieces follow. Without one, the bytes of
    its file follow as Data; the loader finds out their kind. Without a `name` it is the whole content of the
    file, which is only packed: it keeps the file's name. Any name is good: the loader makes it safe and
    unique. `place` says how a place in it is named: by the cells of a `sheet`, or the rows of a `table`.
    """

    name: str
    kind: str = ""
    place: str = ""


@dataclass(frozen=True, slots=True)
class Data:
    """The next bytes of the member's file."""

    data: bytes


@dataclass(frozen=True, slots=True)
class Ended:
    """The end of the file. `replaced` and `guessed` are as in `rlm.documents.encoding`."""

    replaced: int = 0
    guessed: str = ""


Piece = Text | Heading | Page | Member | Data | Problem | Ended


def text_of(pieces: Iterable[Piece]) -> str:
    """Return the text of the pieces, each title on a line."""
    return "".join(
        f"{one.title}\n" if isinstance(one, Heading) else one.text
        for one in pieces
        if isinstance(one, Text | Heading)
    )
