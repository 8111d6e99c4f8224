"""Reading of EPUB chapters in the order of the spine."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import unquote

from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.office_xml import Archive, local_name
from rlm.documents.formats.piece import Ended, Fault, Piece, Problem, Text

__all__ = ["read_epub"]

_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"


def read_epub(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a book, in reading order. Raises Fault if it is locked."""
    archive = Archive(file, size)
    chapters = _spine(archive)
    locked = set()
    if _ENCRYPTION in archive:
        root = archive.xml(_ENCRYPTION)
        locked = {unquote(e.get("URI", "")) for e in root.iter() if local_name(e) == "CipherReference"}
    if chapters and locked.issuperset(chapters):
        raise Fault("locked", "copy protection", "get a copy without it")
    missing = all_replaced = 0
    first_guessed = ""
    for name in chapters:
        if name in locked or name not in archive:
            missing += 1
            continue
        markup, replaced, guessed = decode_markup(archive.read(name))
        all_replaced += replaced
        first_guessed = first_guessed or guessed
        yield from pieces_of_markup(markup, titled=False)
        yield Text("\n")
    if missing == len(chapters):
        raise Fault("bare", "no chapters", "get it again")
    if missing:
        yield Problem(f"{missing:,} of {len(chapters):,} chapters are missing or locked", "get it again")
    yield Ended(all_replaced, first_guessed)


def _spine(archive: Archive) -> list[str]:
    container = archive.xml(_CONTAINER)
    package = next(e.get("full-path", "") for e in container.iter() if local_name(e) == "rootfile")
    root = archive.xml(package)
    base = posixpath.dirname(package)
    files = {
        item.get("id"): posixpath.normpath(posixpath.join(base, unquote(item.get("href", ""))))
        for item in root.iter()
        if local_name(item) == "item"
    }
    ids = [item.get("idref") for item in root.iter() if local_name(item) == "itemref"]
    return [files[name] for name in ids if name in files]
