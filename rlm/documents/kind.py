"""Detection of a document's kind from its name and its first bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from rlm.documents.encoding import HEAD, looks_binary
from rlm.documents.formats import registry
from rlm.documents.formats.foreign import foreign_format
from rlm.documents.formats.piece import LOOK_REMEDY
from rlm.documents.loaded import Skip, SkipReason

__all__ = ["UnsupportedFormat", "kind_of", "readable_kind", "unsupported_format"]


@dataclass(frozen=True, slots=True)
class UnsupportedFormat:
    """A format without a reader: what such a file is, and the remedy."""

    what: str
    remedy: str


_WORD = UnsupportedFormat("an old Word document", "save it as .docx")
_SLIDES = UnsupportedFormat("slides", "export them as PDF")
_SHEET = UnsupportedFormat("a spreadsheet", "export it as CSV")
_KINDLE = UnsupportedFormat("a Kindle book", "convert it to EPUB")
_RTF = UnsupportedFormat("RTF", "save it as .docx or PDF")
_POSTSCRIPT = UnsupportedFormat("PostScript", "convert it to PDF")
_ARCHIVE = UnsupportedFormat("an archive", "unpack it and name the folder")
_PACKED = UnsupportedFormat("packed", "unpack it, or pack it as .gz")
_UNSUPPORTED = {
    ".doc": _WORD,
    ".odt": UnsupportedFormat("an OpenDocument text", "save it as .docx or PDF"),
    ".pages": UnsupportedFormat("a Pages document", "export it as .docx or PDF"),
    ".pptx": _SLIDES,
    ".ppt": _SLIDES,
    ".odp": _SLIDES,
    ".xlsx": _SHEET,
    ".xls": _SHEET,
    ".ods": _SHEET,
    ".mobi": _KINDLE,
    ".azw3": _KINDLE,
    ".rtf": _RTF,
    ".ps": _POSTSCRIPT,
    ".eps": _POSTSCRIPT,
    ".msg": UnsupportedFormat("an Outlook message", "save it as .eml"),
    ".pst": UnsupportedFormat("an Outlook mailbox", "export it as .mbox"),
    ".key": UnsupportedFormat("a Keynote presentation", "export it as PDF"),
    ".numbers": _SHEET,
    **dict.fromkeys((".rar", ".cab", ".iso", ".dmg", ".deb", ".rpm"), _ARCHIVE),
    **dict.fromkeys((".lz4", ".lz", ".z", ".br", ".sz", ".lzo"), _PACKED),
}
_ENCODED = (
    (re.compile(rb"\{\\rtf"), _RTF),
    (re.compile(rb"\x04?%!PS"), _POSTSCRIPT),
)
"""Formats that look like text, but do not hold their words as they are written."""


def kind_of(name: str, first: bytes = b"") -> str:
    """Return the kind of a file by the suffix of `name`, in any case, and by its `first` bytes.

    The magic bytes of a binary format win over the suffix of a text format.
    """
    suffix = PurePath(name).suffix.lower()
    by_name = next((row for row in registry.FORMATS if suffix in row.suffixes), registry.format_of("text"))
    if by_name.is_binary:
        return by_name.kind
    matching = [row for row in registry.FORMATS if row.magic is not None and row.magic.match(first)]
    for row in matching:
        if row.is_container and suffix in _UNSUPPORTED:
            continue  # a document that is packed, such as a workbook: its parts are no texts
        if row.is_binary or not suffix or (row.magic_beats_text and by_name.kind == "text"):
            return row.kind
    return by_name.kind


def unsupported_format(name: str, first: bytes, *, is_binary: bool) -> UnsupportedFormat | None:
    """Return the format of a file that cannot be read, by its `first` bytes, or, if they are binary, by the
    suffix of `name`; None for any other file."""
    encoded = next((found for magic, found in _ENCODED if magic.match(first)), None)
    return encoded or (_UNSUPPORTED.get(PurePath(name).suffix.lower()) if is_binary else None)


def readable_kind(name: str, first: bytes, *, pictures: bool) -> str:
    """Return the kind of a file that begins with `first`. Raises Skip if it is binary or not supported, or a
    picture that no model will look at."""
    kind = kind_of(name, first)
    row = registry.format_of(kind)
    if row.is_picture and not pictures:
        raise Skip("binary (a picture)", LOOK_REMEDY)
    is_binary = not row.is_binary and looks_binary(first[:HEAD])
    unsupported = unsupported_format(name, first, is_binary=is_binary)
    if unsupported is not None:
        what = f"binary ({unsupported.what})" if is_binary else unsupported.what
        raise Skip(what, unsupported.remedy, SkipReason.BROKEN)
    if is_binary:
        raise _skip_binary(name, first)
    return kind


def _skip_binary(name: str, first: bytes) -> Skip:
    foreign = foreign_format(name, first)
    if foreign is None:
        return Skip("binary")
    what = f"binary ({foreign.what})"
    return Skip(what, foreign.remedy, SkipReason.BROKEN) if foreign.remedy else Skip(what)
