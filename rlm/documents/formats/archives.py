"""Reading of the files in tar and zip archives, as streams, without a place to unpack them."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from collections.abc import Iterator
from typing import Any, BinaryIO, Self

from rlm.documents.formats.office_xml import is_locked
from rlm.documents.formats.piece import Data, Ended, Fault, Member, Piece, Problem

__all__ = ["is_tar", "members_of_tar", "read_tar", "read_zip"]

_BLOCK = 1 << 20
_ENCODING = "utf-8"
_UTF8 = 0x800
_DAMAGED = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, IndexError)
_UNPACK = "unpack it and name the folder"


def read_zip(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the files of a zip archive, sorted by name. Raises Fault for a bomb."""
    archive = zipfile.ZipFile(file)
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if sum(info.compress_size for info in infos) > size:
        raise Fault("large", "its files overlap, a zip bomb?")
    for name, info in sorted(((_name(info), info) for info in infos), key=lambda named: named[0]):
        yield Member(name)
        if is_locked(info):
            yield Problem("protected by a password", _UNPACK, "missing")
            continue
        try:
            with archive.open(info) as member:
                while data := member.read(_BLOCK):
                    yield Data(data)
        except NotImplementedError:
            yield Problem(
                f"packed in a way that is not known here (method {info.compress_type})", _UNPACK, "missing"
            )
        except _DAMAGED:
            yield Problem("damaged in its archive", "get it again", "missing")
    yield Ended()


def _name(info: zipfile.ZipInfo) -> str:
    """Return the name of a file. Many programs write UTF-8 without saying so."""
    if info.flag_bits & _UTF8:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename


def is_tar(head: bytes) -> bool:
    """Return whether a file that begins with `head` is a tar archive."""
    try:
        # An archive without files is all zeros, as other files are.
        return bool(tarfile.TarInfo.frombuf(head[: tarfile.BLOCKSIZE], _ENCODING, "surrogateescape").name)
    except tarfile.HeaderError:
        return False


def read_tar(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the files of a tar archive. Raises Fault where it is cut."""
    yield from members_of_tar(file)
    yield Ended()


def members_of_tar(stream: Any) -> Iterator[Piece]:
    """Yield the files of an archive, without its links: what they name has a name of its own. `stream` has a
    `read`. Raises Fault where it is cut."""
    with _Archive.open(
        fileobj=stream, mode="r|", bufsize=_BLOCK, encoding=_ENCODING, tarinfo=_Info
    ) as archive:
        while (info := archive.next()) is not None:
            archive.members = []  # an archive may hold many
            if info.isreg() and (file := archive.extractfile(info)) is not None:
                yield Member(info.name)
                while data := file.read(_BLOCK):
                    yield Data(data)
        if archive.end != "EOFHeaderError":
            raise Fault("damaged", remedy="get it again")


class _Archive(tarfile.TarFile):
    """An archive that keeps the name of the error that its end was: the library takes a damaged header for
    the end."""

    end = ""
    members: list[tarfile.TarInfo]


class _Info(tarfile.TarInfo):
    @classmethod
    def fromtarfile(cls, archive: Any) -> Self:
        try:
            return super().fromtarfile(archive)
        except tarfile.HeaderError as error:
            archive.end = type(error).__name__
            raise
