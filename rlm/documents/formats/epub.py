"""Reading of EPUB chapters in the order of the spine."""

from __future__ import annotations

import posixpath
from collections.abc import Iterator
from typing import BinaryIO
from urllib.parse import unquote

from rlm.documents.formats import html
from rlm.documents.formats.archive import Archive
from rlm.documents.formats.html import decode_markup, pieces_of_markup
from rlm.documents.formats.office_xml.xml import local_name, parse_member
from rlm.documents.formats.piece import Ended, Note, Piece, Text, Unreadable

__all__ = ["prepare", "read_epub"]

_WHAT = "an EPUB"
_CONTAINER = "META-INF/container.xml"
_ENCRYPTION = "META-INF/encryption.xml"


def prepare() -> None:
    """Import what reading needs: later nothing can be opened."""
    html.prepare()


def read_epub(file: BinaryIO, size: int) -> Iterator[Piece]:
    """Yield text and headings of a book, in reading order. Raises Unreadable if it is damaged or locked."""
    archive = Archive(file, size, _WHAT)
    chapters = _spine(archive)
    locked = _locked(archive)
    if chapters and all(name in locked for name in chapters):
        raise Unreadable("an EPUB with copy protection", "get a copy without it")
    missing = all_replaced = 0
    first_guessed: str | None = None
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
        raise Unreadable("an EPUB without chapters", "get it again")
    if missing:
        yield Note(f"{missing:,} of {len(chapters):,} chapters are missing or locked: get it again")
    yield Ended(all_replaced, first_guessed)


def _spine(archive: Archive) -> list[str]:
    container = parse_member(archive, _CONTAINER, _WHAT)
    package = next((e.get("full-path") for e in container.iter() if local_name(e) == "rootfile"), None)
    if not package:
        raise Unreadable("an EPUB that does not say what it holds", "get it again")
    root = parse_member(archive, package, _WHAT)
    base = posixpath.dirname(package)
    files = {
        item.get("id"): posixpath.normpath(posixpath.join(base, unquote(item.get("href", ""))))
        for item in root.iter()
        if local_name(item) == "item"
    }
    ids = [item.get("idref") for item in root.iter() if local_name(item) == "itemref"]
    return [files[name] for name in ids if name in files]


def _locked(archive: Archive) -> set[str]:
    if _ENCRYPTION not in archive:
        return set()
    root = parse_member(archive, _ENCRYPTION, _WHAT)
    return {unquote(e.get("URI", "")) for e in root.iter() if local_name(e) == "CipherReference"}
