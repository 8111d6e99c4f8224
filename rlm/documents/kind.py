"""Detection of a document's kind from its name and its first bytes."""

from __future__ import annotations

from pathlib import PurePath

from rlm.documents.formats import registry

__all__ = ["kind_of", "unsupported_format"]

_UNSUPPORTED = {
    ".doc": ("an old Word document", "save it as .docx"),
    ".odt": ("an OpenDocument text", "save it as .docx or PDF"),
    ".pages": ("a Pages document", "export it as .docx or PDF"),
    ".pptx": ("slides", "export them as PDF"),
    ".ppt": ("slides", "export them as PDF"),
    ".xlsx": ("a spreadsheet", "export it as CSV"),
    ".xls": ("a spreadsheet", "export it as CSV"),
    ".ods": ("a spreadsheet", "export it as CSV"),
    ".mobi": ("a Kindle book", "convert it to EPUB"),
    ".azw3": ("a Kindle book", "convert it to EPUB"),
    ".zip": ("an archive", "unpack it and name the folder"),
    ".gz": ("packed", "unpack it"),
    ".xz": ("packed", "unpack it"),
    ".zst": ("packed", "unpack it"),
}


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
        if row.is_binary or not suffix:
            return row.kind
    return by_name.kind


def unsupported_format(name: str) -> tuple[str, str] | None:
    """Return what a file of an unsupported format is, and the remedy; None for any other name."""
    return _UNSUPPORTED.get(PurePath(name).suffix.lower())
