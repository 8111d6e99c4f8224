"""The files that a document is in, and how deep they may be."""

from __future__ import annotations

from pathlib import PurePath

from rlm.documents.formats.converter import Room
from rlm.documents.formats.registry import DocumentFormat
from rlm.documents.loaded import Skip, SkipReason
from rlm.lazy_dataclass import dataclass

__all__ = ["Outer"]

_MAX_ARCHIVES = 2
"""Archives that are opened within each other: one in an archive is opened, one in that is not."""
_MAX_DEPTH = 4
"""Files that may be around a document that is converted: archives, and mails with attachments."""


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
