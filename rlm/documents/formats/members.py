"""The documents that one file holds: its pieces, split at them, and how deep files may be nested."""

from __future__ import annotations

import unicodedata
from collections.abc import Generator, Iterator
from pathlib import PurePath

from rlm.documents.formats.piece import (
    Data,
    Ended,
    Heading,
    Member,
    NotRead,
    Piece,
    Problem,
    Text,
)
from rlm.documents.formats.registry import DocumentFormat

__all__ = ["Members", "Nesting", "safe_name"]

_LONGEST_NAME = 1_000
_MAX_ARCHIVES = 2
"""Archives that are opened within each other: one in an archive is opened, one in that is not."""
_MAX_DEPTH = 4
"""Files that may be around a document that is converted: archives, and mails with attachments."""
_MIN_TEXT = 64 << 20
_MIN_UNPACKED = 2 << 30
"""Bytes that a small container may hold: a log of many equal lines is packed to a 500th of its size."""
_MAX_GROWTH = 200
_MAX_MEMBERS = 100_000
_LEAST_PIECE = 16
"""Bytes that count for a piece without a text. A worker that was taken over could send them without end."""


class Nesting:
    """A file that is read, and the one that it is in. With all that is in it, it may grow to 200 times its
    size, but at least 64 MB of text, and 2 GB of unpacked files; and to 100,000 documents. What a file within
    another holds counts for both."""

    def __init__(self, row: DocumentFormat, size: int, parent: Nesting | None = None) -> None:
        self._row = row
        self._parent = parent
        self._bytes_left = max(_MIN_UNPACKED if row.is_container else _MIN_TEXT, _MAX_GROWTH * size)
        self._members_left = _MAX_MEMBERS

    def count(self, piece: Piece) -> None:
        """Count a piece. Raises NotRead if it is too much."""
        match piece:
            case Text(content) | Data(content):
                self._count(len(content), 0)
            case Heading(_, title):
                self._count(_LEAST_PIECE + len(title), 0)
            case Member():
                self._count(0, 1)
            case _:
                self._count(_LEAST_PIECE, 0)

    def _count(self, size: int, members: int) -> None:
        self._bytes_left -= size
        self._members_left -= members
        if self._bytes_left < 0:
            raise NotRead(
                f"{self._row.article} that grows beyond {_MAX_GROWTH} times its size (a bomb?)",
                "unpack it yourself if you trust it, and name the folder"
                if self._row.is_container
                else "save it as text yourself if you trust it",
            )
        if self._members_left < 0:
            raise NotRead(
                f"{self._row.article} of more than {_MAX_MEMBERS:,} files",
                "unpack it and name the folders that matter",
            )
        if self._parent is not None:
            self._parent._count(size, members)

    @property
    def article(self) -> str:
        """What the file is called: `a zip archive`."""
        return self._row.article

    def check_depth(self, row: DocumentFormat) -> None:
        """Raise NotRead if a document of this format, in this file, is not opened."""
        archives = depth = 0
        at: Nesting | None = self
        while at is not None:
            archives, depth, at = archives + at._row.is_container, depth + 1, at._parent
        if depth > _MAX_DEPTH or (row.is_container and archives >= _MAX_ARCHIVES):
            raise NotRead(
                f"{row.article} within archives or mails, too deep to be opened",
                "unpack it and name the folder",
            )

    def without_packing(self, name: str) -> str:
        """Return the name of what a packed file of this format holds: `a.csv` for `a.csv.gz`."""
        suffix = PurePath(name).suffix
        return name[: -len(suffix)] if suffix.lower() in self._row.suffixes else name


class Members:
    """Reads pieces in order: `content` ends at the next member, which iteration then gives.

    `refusal` is why the reading of the file ended early, or None. `ended` is the last piece. Close it when it
    is not read to its end.
    """

    def __init__(self, pieces: Generator[Piece], nesting: Nesting) -> None:
        self._pieces = pieces
        self.nesting = nesting
        self._next: Member | None = None
        self.ended = Ended()
        self.refusal: NotRead | None = None

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
        except NotRead as refusal:
            self.refusal = refusal

    def data(self, size: int, problems: list[Problem]) -> Iterator[bytes]:
        """Yield the bytes of a member in blocks of `size`; only the last one is shorter. Raises NotRead after
        it if the member is cut."""
        waiting = bytearray()
        cut: NotRead | None = None
        for piece in self.content():
            if isinstance(piece, Data):
                if len(piece.data) == size and not waiting:
                    yield piece.data
                    continue
                waiting += piece.data
                while len(waiting) >= size:
                    yield bytes(waiting[:size])
                    del waiting[:size]
            elif isinstance(piece, Problem) and piece.kind == "missing":
                cut = NotRead(piece.what, piece.remedy)
                break
            elif isinstance(piece, Problem):
                problems.append(piece)
        if waiting:
            yield bytes(waiting)
        if cut := cut or self.refusal:
            raise NotRead(cut.problem.what, cut.problem.remedy)

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
