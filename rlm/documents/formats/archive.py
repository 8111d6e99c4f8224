"""Reading of an untrusted zip archive. Sizes are checked before anything is unpacked."""

from __future__ import annotations

import lzma
import zipfile
import zlib
from typing import BinaryIO

from rlm.documents.formats.piece import Unreadable

__all__ = [
    "ZIP_ERRORS",
    "Archive",
    "is_locked",
    "open_zip",
    "refuse_compound",
    "refuse_encrypted",
    "refuse_entities",
]

ZIP_ERRORS = (zipfile.BadZipFile, zlib.error, lzma.LZMAError, OSError, EOFError, ValueError, IndexError)
"""What a damaged archive or member raises. An unknown way of packing raises NotImplementedError."""

_MAX_BYTES = 512 << 20
_MAX_MEMBERS = 20_000
_MAX_RATIO = 200
_SMALL = 32 << 20
"""Bytes that an archive may unpack to at any ratio: empty pages compress well."""

_ENCRYPTED = 0x1
_COMPOUND = b"\xd0\xcf\x11\xe0\xa1\xb1\x1a\xe1"
_ENCRYPTED_PACKAGE = "EncryptedPackage".encode("utf-16-le")


def refuse_encrypted(file: BinaryIO, what: str) -> None:
    """Raise Unreadable for an office file with a password: an OLE file that holds the encrypted archive."""
    file.seek(0)
    if file.read(len(_COMPOUND)) == _COMPOUND and _ENCRYPTED_PACKAGE in file.read():
        raise Unreadable(
            f"{what} that is encrypted (protected by a password)", "save a copy without a password"
        )
    file.seek(0)


def refuse_compound(file: BinaryIO, what: str, suffix: str) -> None:
    """Raise Unreadable if a file that should be a zip archive is an OLE file: one with a password, or an old
    document, whose suffix is that of `suffix` without its last letter."""
    refuse_encrypted(file, what)
    if file.read(len(_COMPOUND)) == _COMPOUND:
        raise Unreadable(
            f"{what} protected by a password, or an old {suffix[:-1]}",
            f"save it as a {suffix} without a password",
        )
    file.seek(0)


def refuse_entities(data: bytes, what: str) -> bytes:
    """Return an XML text unchanged. Raises Unreadable if it declares entities, which can expand without
    limit."""
    if b"<!ENTITY" in data.replace(b"\0", b""):
        raise Unreadable(
            f"{what} that declares entities (an XML bomb?)", "open it in its program and save it again"
        )
    return data


def open_zip(file: BinaryIO, what: str) -> zipfile.ZipFile:
    """Open a zip archive, which `what` names in errors. Raises Unreadable."""
    try:
        return zipfile.ZipFile(file)
    except (*ZIP_ERRORS, NotImplementedError) as error:
        raise Unreadable(
            f"{what} that cannot be opened (damaged or truncated)", "get it again, or save it again"
        ) from error


def is_locked(member: zipfile.ZipInfo) -> bool:
    """Return whether a member is protected by a password."""
    return bool(member.flag_bits & _ENCRYPTED)


class Archive:
    """The members of a zip archive, read one at a time. `what` names the file in errors ("a DOCX").

    Raises Unreadable for an archive that is damaged or encrypted, unpacks to more than 512 MB, or to more
    than 32 MB and 200 times its size. Nested archives are never opened.
    """

    def __init__(self, file: BinaryIO, size: int, what: str) -> None:
        self._what = what
        self._zip = open_zip(file, what)
        members = self._zip.infolist()
        total = sum(member.file_size for member in members)
        if (
            len(members) > _MAX_MEMBERS
            or total > _MAX_BYTES
            or (total > _SMALL and total > _MAX_RATIO * size)
        ):
            raise Unreadable(
                f"{what} that would unpack to {total / 2**20:,.0f} MB in {len(members):,} parts"
                " (a zip bomb?)",
                "unpack it yourself if you trust it, and name the texts in it",
            )
        if any(map(is_locked, members)):
            raise Unreadable(f"{what} protected by a password", "save a copy without one")

    def __contains__(self, name: str) -> bool:
        return name in self._zip.NameToInfo

    def names(self) -> list[str]:
        """Return the names of all members."""
        return self._zip.namelist()

    def size(self, name: str) -> int:
        """Return the bytes of a member, as the archive states them."""
        return self._zip.getinfo(name).file_size

    def read(self, name: str) -> bytes:
        """Return one member. Raises Unreadable."""
        try:
            return self._zip.read(name)
        except (*ZIP_ERRORS, KeyError, NotImplementedError) as error:
            raise Unreadable(
                f"{self._what} whose part {name[:80]!r} is missing or damaged",
                "get it again, or save it again",
            ) from error

    def xml(self, name: str) -> bytes:
        """Return an XML member. Raises Unreadable if it declares entities, which can expand without limit."""
        return refuse_entities(self.read(name), self._what)
