"""Reading of the files in a zip archive."""

from __future__ import annotations

import codecs
import zipfile
from collections.abc import Iterator
from typing import BinaryIO

from rlm.documents.formats.archive import ZIP_ERRORS, is_locked, open_zip
from rlm.documents.formats.piece import Data, Ended, Member, Piece, Unread, Unreadable

__all__ = ["prepare", "read_zip"]

_BLOCK = 1 << 20
_UTF8 = 0x800


def prepare() -> None:
    """Import what old names are decoded with: later nothing can be opened."""
    codecs.lookup("cp437")


def read_zip(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield the files of a zip archive, sorted by name. Raises Unreadable if it is damaged."""
    archive = open_zip(file, "a zip archive")
    infos = [info for info in archive.infolist() if not info.is_dir()]
    if sum(info.compress_size for info in infos) > size:
        raise Unreadable(
            "a zip archive whose files overlap (a zip bomb?)",
            "unpack it yourself if you trust it, and name the folder",
        )
    for name, info in sorted(((_name(info), info) for info in infos), key=lambda named: named[0]):
        yield Member(name)
        if is_locked(info):
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
        except ZIP_ERRORS:
            yield Unread("damaged in its archive", "get it again")
    yield Ended()


def _name(info: zipfile.ZipInfo) -> str:
    """Return the name of a file. Many programs write UTF-8 without saying so."""
    if info.flag_bits & _UTF8:
        return info.filename
    try:
        return info.filename.encode("cp437").decode("utf-8")
    except UnicodeError:
        return info.filename
