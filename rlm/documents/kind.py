"""Detection of a document's kind from its name and its first bytes."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import PurePath

from rlm.documents.encoding import HEAD, looks_binary
from rlm.documents.formats import plugins, registry
from rlm.documents.formats.foreign import foreign_format
from rlm.documents.formats.office import ocr_extra
from rlm.documents.formats.piece import LOOK_REMEDY, RECOGNIZE_REMEDY
from rlm.documents.loaded import Skip, SkipReason

__all__ = ["UnsupportedFormat", "kind_of", "readable_kind", "unsupported_format"]


@dataclass(frozen=True, slots=True)
class UnsupportedFormat:
    """A format without a reader: what such a file is, and the remedy."""

    what: str
    remedy: str


_WORD = UnsupportedFormat("an old Word document", "save it as .docx")
_SLIDES = UnsupportedFormat("old PowerPoint slides", "save them as .pptx or export them as PDF")
_KEYNOTE = UnsupportedFormat("Keynote slides", "export them as .pptx or PDF")
_SHEET = UnsupportedFormat("a spreadsheet", "export it as CSV")
_DATABASE = UnsupportedFormat(
    "a database that is not SQLite, or an encrypted one", "export its tables as CSV"
)
_DUCKDB = UnsupportedFormat(
    "a DuckDB database", "export its tables: duckdb FILE \"export database 'folder' (format csv)\""
)
_COLUMNS = UnsupportedFormat("a table", "convert it to Parquet or CSV")
_KINDLE = UnsupportedFormat("a Kindle book", "convert it to EPUB")
_POSTSCRIPT = UnsupportedFormat("PostScript", "convert it to PDF")
_ARCHIVE = UnsupportedFormat("an archive", "unpack it and name the folder")
_PACKED = UnsupportedFormat("packed", "unpack it, or pack it as .gz")
_UNSUPPORTED = {
    ".doc": _WORD,
    ".pages": UnsupportedFormat("a Pages document", "export it as .docx or PDF"),
    ".ppt": _SLIDES,
    ".wk1": _SHEET,
    ".123": _SHEET,
    ".duckdb": _DUCKDB,
    ".ddb": _DUCKDB,
    ".db": _DATABASE,
    ".mdb": _DATABASE,
    ".accdb": _DATABASE,
    ".dbf": _DATABASE,
    ".feather": _COLUMNS,
    ".arrow": _COLUMNS,
    ".orc": _COLUMNS,
    ".avro": _COLUMNS,
    ".pps": _SLIDES,
    ".pot": _SLIDES,
    ".key": _KEYNOTE,
    ".dot": _WORD,
    ".wps": UnsupportedFormat("a Works document", "save it as .docx or PDF"),
    ".wpd": UnsupportedFormat("a WordPerfect document", "save it as .docx or PDF"),
    ".hwp": UnsupportedFormat("a Hangul document", "save it as .docx or PDF"),
    ".one": UnsupportedFormat("a OneNote section", "export it as PDF"),
    ".djvu": UnsupportedFormat("a DjVu book", "convert it to PDF"),
    ".mobi": _KINDLE,
    ".azw3": _KINDLE,
    ".ps": _POSTSCRIPT,
    ".eps": _POSTSCRIPT,
    ".pst": UnsupportedFormat("an Outlook mailbox", "export it as .mbox"),
    ".numbers": _SHEET,
    **dict.fromkeys((".rar", ".cab", ".iso", ".dmg", ".deb", ".rpm"), _ARCHIVE),
    **dict.fromkeys((".lz4", ".lz", ".z", ".br", ".sz", ".lzo"), _PACKED),
}
_ENCODED = (
    (re.compile(rb"\x04?%!PS"), _POSTSCRIPT),
    (re.compile(rb"Rar!\x1a\x07"), _ARCHIVE),
    (
        re.compile(rb"x\x9f>\""),
        UnsupportedFormat("an Outlook attachment (winmail.dat)", "ask for a plain mail"),
    ),
)
"""Formats that look like text, but do not hold their words as they are written."""


def kind_of(name: str, first: bytes = b"") -> str:
    """Return the kind of a file by the suffix of `name`, in any case, and by its `first` bytes.

    The magic bytes of a binary format win over the suffix of a text format.
    """
    suffix = PurePath(name).suffix.lower()
    by_name = _row_of(suffix)
    if by_name is not None and by_name.kind == "workbook" and _is_exported_text(first):
        by_name, suffix = registry.format_of("csv"), ""
    if by_name is not None and by_name.is_binary:
        return by_name.kind
    if by_name is None and (added := plugins.by_suffix(suffix)) is not None:
        return added.kind
    is_text = by_name is None or by_name.kind == "text"
    matching = [row for row in registry.FORMATS if row.magic is not None and row.magic.match(first)]
    for row in matching:
        if row.is_container and suffix in _UNSUPPORTED:
            continue  # a document that is packed, such as a workbook: its parts are no texts
        if row.is_binary or not suffix or (row.magic_beats_text and is_text):
            return row.kind
    if by_name is None:
        added = plugins.by_magic(suffix, first)
        return "text" if added is None else added.kind
    return by_name.kind


def _is_exported_text(first: bytes) -> bool:
    """Return whether a file that is called a workbook is a text. Web sites export HTML and CSV as `.xls`."""
    return bool(first) and not looks_binary(first[:HEAD])


def reader_faults(name: str) -> tuple[str, ...]:
    """Return a line for each broken reader of another package that a file of this name may have needed."""
    suffix = PurePath(name).suffix.lower()
    return plugins.faults(suffix) if _row_of(suffix) is None else ()


def _row_of(suffix: str) -> registry.DocumentFormat | None:
    return next((row for row in registry.FORMATS if suffix in row.suffixes), None)


def unsupported_format(name: str, first: bytes, *, is_binary: bool) -> UnsupportedFormat | None:
    """Return the format of a file that cannot be read, by its `first` bytes, or, if they are binary, by the
    suffix of `name`; None for any other file."""
    encoded = next((found for magic, found in _ENCODED if magic.match(first)), None)
    return encoded or (_UNSUPPORTED.get(PurePath(name).suffix.lower()) if is_binary else None)


def readable_kind(name: str, first: bytes, *, pictures: bool) -> str:
    """Return the kind of a file that begins with `first`. Raises Skip if it is binary or not supported, or a
    picture that no model will look at and whose words are not recognized."""
    kind = kind_of(name, first)
    row = registry.format_of(kind)
    if row.is_picture and not pictures and not ocr_extra.is_installed():
        raise Skip("binary (a picture)", f"{RECOGNIZE_REMEDY}, or {LOOK_REMEDY}")
    is_binary = not row.is_binary and looks_binary(first[:HEAD])
    unsupported = None if row.package else unsupported_format(name, first, is_binary=is_binary)
    if unsupported is not None:
        what = f"binary ({unsupported.what})" if is_binary else unsupported.what
        raise Skip(what, unsupported.remedy, SkipReason.BROKEN)
    if is_binary and (broken := reader_faults(name)):
        fault, _, remedy = broken[0].rpartition(": ")
        raise Skip(f"binary, and {fault}", remedy, SkipReason.BROKEN)
    if is_binary:
        raise _skip_binary(name, first)
    return kind


def _skip_binary(name: str, first: bytes) -> Skip:
    foreign = foreign_format(name, first)
    if foreign is None:
        return Skip("binary")
    what = f"binary ({foreign.what})"
    return Skip(what, foreign.remedy, SkipReason.BROKEN) if foreign.remedy else Skip(what)
