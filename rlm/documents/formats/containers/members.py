"""The documents that one file holds: its pieces, split at them, and how deep files may be nested."""

from __future__ import annotations

import unicodedata
from collections.abc import Generator, Iterator
from pathlib import PurePath

from rlm.documents.formats.converter import Room
from rlm.documents.formats.piece import Data, Ended, Member, Note, Piece, Unread, Unreadable
from rlm.documents.formats.registry import DocumentFormat
from rlm.documents.loaded import Skip, SkipReason
from rlm.lazy_dataclass import dataclass

__all__ = ["Members", "Outer", "safe_name"]

_LONGEST_NAME = 1_000
_MAX_ARCHIVES = 2
"""Archives that are opened within each other: one in an archive is opened, one in that is not."""
_MAX_DEPTH = 4
"""Files that may be around a document that is converted: archives, and mails with attachments."""


class Members:
    """Reads pieces in order: `content` ends at the next member, which iteration then gives.

    `fault` is why the reading of the file ended early, or None. `ended` is the last piece. `room` bounds what
    the file may grow to. Close it when it is not read to its end.
    """

    def __init__(self, pieces: Generator[Piece], room: Room) -> None:
        self._pieces = pieces
        self.room = room
        self._next: Member | None = None
        self.ended = Ended()
        self.fault: Unreadable | None = None

    @property
    def has_next(self) -> bool:
        """Return whether `content` ended at a member."""
        return self._next is not None

    def content(self) -> Iterator[Piece]:
        """Yield the pieces up to the next member, or to the end."""
        if self._next is not None:
            return
        try:
            for piece in self._pieces:
                if isinstance(piece, Member):
                    self._next = piece
                    return
                if isinstance(piece, Ended):
                    self.ended = piece
                    return
                yield piece
        except Unreadable as fault:
            self.fault = fault

    def data(self, size: int, notes: list[Note]) -> Iterator[bytes]:
        """Yield the bytes of a member in blocks of `size`; only the last one is shorter. Adds its notes to
        `notes`. Raises Unreadable after the last block if the member is cut."""
        waiting = bytearray()
        cut: Unreadable | None = None
        for piece in self.content():
            match piece:
                case Data(data) if len(data) == size and not waiting:
                    yield data
                case Data(data):
                    waiting += data
                    while len(waiting) >= size:
                        yield bytes(waiting[:size])
                        del waiting[:size]
                case Note():
                    notes.append(piece)
                case Unread(reason, remedy):
                    cut = Unreadable(reason, remedy)
                    break
        if waiting:
            yield bytes(waiting)
        if cut := cut or self.fault:
            raise Unreadable(str(cut), cut.remedy)

    def close(self) -> None:
        """End the reader of the file."""
        self._pieces.close()

    def __iter__(self) -> Iterator[Member]:
        while self._next is not None:
            member, self._next = self._next, None
            yield member
            for _ in self.content():
                pass  # what its reader did not want


def safe_name(name: str) -> str:
    """Return the name of a member as a relative path of one line: without `..`, and without characters that
    a terminal obeys. It may be empty."""
    kept = "".join(
        char if unicodedata.category(char) not in ("Cc", "Cf", "Cs", "Zl", "Zp") else "\ufffd"
        for char in name
    )
    parts = [part for part in kept.replace("\\", "/").split("/") if part.strip() not in ("", ".", "..")]
    return "/".join(parts)[-_LONGEST_NAME:]


@dataclass(frozen=True, slots=True)
class Outer:
    """The file that a member is in: its name, its format, what it may grow to, and the file that it is in."""

    name: str
    row: DocumentFormat
    room: Room
    outer: Outer | None = None

    def check_depth(self, row: DocumentFormat) -> None:
        """Raise Skip if a document of this format, in this file, is not opened."""
        archives = depth = 0
        at: Outer | None = self
        while at is not None:
            archives, depth, at = archives + at.row.is_container, depth + 1, at.outer
        if depth > _MAX_DEPTH or (row.is_container and archives >= _MAX_ARCHIVES):
            raise Skip(
                f"{row.article} within archives or mails, too deep to be opened",
                "unpack it and name the folder",
                SkipReason.BROKEN,
            )

    def without_packing(self, name: str) -> str:
        """Return the name of what a packed file of this format holds: `a.csv` for `a.csv.gz`."""
        suffix = PurePath(name).suffix
        return name[: -len(suffix)] if suffix.lower() in self.row.suffixes else name
