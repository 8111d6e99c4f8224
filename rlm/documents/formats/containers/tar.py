"""Reading of the files in a tar archive, in their order, without a place to unpack them."""

from __future__ import annotations

import tarfile
from collections.abc import Iterator
from typing import Any, BinaryIO, Self

from rlm.documents.formats.piece import Data, Ended, Member, Piece, Unreadable

__all__ = ["is_tar", "members_of_tar", "read_tar"]

_BLOCK = 1 << 20
_ENCODING = "utf-8"


def is_tar(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a tar archive."""
    try:
        # An archive without files is all zeros, as other files are.
        return bool(tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], _ENCODING, "surrogateescape").name)
    except tarfile.HeaderError:
        return False


def read_tar(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the files of a tar archive. Raises Unreadable where it is damaged."""
    yield from members_of_tar(file, "a tar archive")
    yield Ended()


def members_of_tar(stream: Any, what: str) -> Iterator[Piece]:
    """Yield the files of an archive, without its links: what they name has a name of its own. `stream`
    has a `read`, `what` names the archive in errors. Raises Unreadable where it is damaged."""
    try:
        with _Archive.open(
            fileobj=stream, mode="r|", bufsize=_BLOCK, encoding=_ENCODING, tarinfo=_Info
        ) as archive:
            while (info := archive.next()) is not None:
                archive.forget()
                if info.isreg():
                    yield Member(info.name)
                    yield from _data(archive, info)
            if archive.end == "EmptyHeaderError":
                raise Unreadable(f"{what} without the mark of its end (truncated?)", "get it again")
            if archive.end != "EOFHeaderError":
                raise Unreadable(f"{what} that is damaged or truncated", "get it again")
    except (tarfile.TarError, OSError, ValueError, EOFError, OverflowError) as error:
        raise Unreadable(f"{what} that is damaged or truncated", "get it again") from error


def _data(archive: tarfile.TarFile, info: tarfile.TarInfo) -> Iterator[Piece]:
    file = archive.extractfile(info)
    assert file is not None
    with file:
        while data := file.read(_BLOCK):
            yield Data(data)


class _Archive(tarfile.TarFile):
    """An archive that keeps the name of the error that its end was: the library takes a damaged header for
    the end."""

    end = ""
    members: list[tarfile.TarInfo]

    def forget(self) -> None:
        """Drop the headers read so far: an archive may hold many."""
        self.members = []


class _Info(tarfile.TarInfo):
    @classmethod
    def fromtarfile(cls, archive: Any) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            archive.end = type(error).__name__
            raise
