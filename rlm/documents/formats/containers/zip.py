"""Reading of the files in a zip archive."""

from __future__ import annotations

import codecs
import lzma
import zipfile
import zlib
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.formats.piece import Data, Ended, Member, Piece, Unread, Unreadable

__all__ = ["prepare", "read_zip"]

_BLOCK = 1 << 20
_ENCRYPTED = 0x1
_UTF8 = 0x800
_GET_IT_AGAIN = "get it again"
_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, IndexError)


def prepare() -> None:
    """Import what old names are decoded with: later nothing can be opened."""
    codecs.lookup("cp437")


def read_zip(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the files of a zip archive, sorted by name. Raises Unreadable if it is damaged."""
    try:
        archive = zipfile.ZipFile(file)
    except (*_ERRORS, NotImplementedError) as error:
        raise Unreadable("a zip archive that is damaged or truncated", _GET_IT_AGAIN) from error
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if sum(info.compress_size for info in infos) > size:
        raise Unreadable(
            "a zip archive whose files overlap (a zip bomb?)",
            "unpack it yourself if you trust it, and name the folder",
        )
    for name, info in sorted(((_name(info), info) for info in infos), key=lambda named: named[0]):
        yield Member(name)
        if info.flag_bits & _ENCRYPTED:
            yield Unread("protected by a password", "unpack it and name the folder")
            continue
        try:
            with archive.open(info) as member:
                while data := member.read(_BLOCK):
                    yield Data(data)
        except NotImplementedError:
            yield Unread(
                f"packed in a way that is not known here (method {info.compress_type})",
                "unpack it and name the folder",
            )
        except _ERRORS:
            yield Unread("damaged in its archive", _GET_IT_AGAIN)
    yield Ended()


def _name(info: zipfile.ZipInfo) -> str:
    """Return the name of a file. Many programs write UTF-8 without saying so."""
    if info.flag_bits & _UTF8:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename
