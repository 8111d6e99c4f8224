"""Detection of a document's kind from its name and its first bytes."""

from __future__ import annotations

from pathlib import Path, PurePath

from rlm.documents.encoding import HEAD, looks_binary
from rlm.documents.formats import plugins, registry
from rlm.documents.formats.foreign import DOCUMENT_SUFFIXES, foreign_format
from rlm.documents.formats.piece import LOOK_REMEDY, RECOGNIZE_REMEDY
from rlm.documents.loaded import Skip, SkipReason
from rlm.version import has_extra

__all__ = ["has_unread_log", "kind_of", "readable_kind", "reader_faults"]

_WAL_MODE = b"\x02\x02"


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
        if row.is_container and suffix in DOCUMENT_SUFFIXES:
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


def has_unread_log(first: bytes, path: Path | None) -> bool:
    """Return whether an SQLite database that begins with `first` may have changes in a log (WAL) that is not
    read. Without a path it came from elsewhere, and its log did not come with it."""
    if first[18:20] != _WAL_MODE:
        return False
    log = None if path is None else path.with_name(f"{path.name}-wal")
    return log is None or (log.is_file() and log.stat().st_size > 0)


def _row_of(suffix: str) -> registry.DocumentFormat | None:
    return next((row for row in registry.FORMATS if suffix in row.suffixes), None)


def readable_kind(name: str, first: bytes, *, pictures: bool) -> str:
    """Return the kind of a file that begins with `first`. Raises Skip if it is binary or not supported, or a
    picture that no model will look at and whose words are not recognized."""
    kind = kind_of(name, first)
    row = registry.format_of(kind)
    if row.is_picture and not pictures and not has_extra("ocr"):
        raise Skip("binary (a picture)", f"{RECOGNIZE_REMEDY}, or {LOOK_REMEDY}")
    is_binary = not row.is_binary and looks_binary(first[:HEAD])
    foreign = None if row.package else foreign_format(name, first, is_binary=is_binary)
    if is_binary and (foreign is None or not foreign.remedy) and (broken := reader_faults(name)):
        fault, _, remedy = broken[0].rpartition(": ")
        raise Skip(f"binary, and {fault}", remedy, SkipReason.BROKEN)
    if foreign is not None:
        what = f"binary ({foreign.what})" if is_binary else foreign.what
        raise Skip(what, foreign.remedy, SkipReason.BROKEN) if foreign.remedy else Skip(what)
    if is_binary:
        raise Skip("binary")
    return kind
