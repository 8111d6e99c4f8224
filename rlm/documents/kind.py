"""Detection of a document's kind from its name and its first bytes."""

from __future__ import annotations

import re
from os.path import splitext

from rlm.documents.encoding import HEAD, looks_binary
from rlm.documents.formats import plugins, registry
from rlm.documents.formats.piece import LOOK_REMEDY, RECOGNIZE_REMEDY, NotRead
from rlm.documents.formats.unsupported import DOCUMENT_SUFFIXES, unsupported_format
from rlm.version import has_extra

__all__ = ["kind_of", "readable_kind", "reader_faults"]

_MAY_BE_TEXT = ("workbook", "msg")
"""Binary formats whose suffix texts have, too: web sites export HTML and CSV as `.xls`; `.msg` files hold
messages of many programs."""


_BY_SUFFIX = {suffix: row for row in registry.FORMATS for suffix in row.suffixes}


def _any_magic(*, is_binary: bool) -> re.Pattern[bytes]:
    """Return one pattern for the first bytes of all formats, or of the binary ones only."""
    magics = [row.magic.pattern for row in registry.FORMATS if row.magic and row.is_binary >= is_binary]
    scoped = [b"(?i:" + one[4:] + b")" if one.startswith(b"(?i)") else one for one in magics]
    return re.compile(b"|".join(b"(?:" + one + b")" for one in scoped), re.S)


_MAGIC = {is_binary: _any_magic(is_binary=is_binary) for is_binary in (False, True)}
"""A file that none of these match is what its name says."""


def kind_of(name: str, first: bytes = b"") -> str:
    """Return the kind of a file by the suffix of `name`, in any case, and by its `first` bytes.

    The magic bytes of a binary format win over the suffix of a text format.
    """
    suffix = splitext(name)[1].lower()  # noqa: PTH122 (it is called for each file)
    by_name = _BY_SUFFIX.get(suffix)
    if by_name is not None and by_name.kind in _MAY_BE_TEXT and first and not looks_binary(first[:HEAD]):
        by_name = registry.format_of("csv" if by_name.kind == "workbook" else "text")
        suffix = ""
    if by_name is not None and by_name.is_binary:
        return by_name.kind
    if by_name is None and (added := plugins.by_suffix(suffix)) is not None:
        return added.kind
    is_text = by_name is None or by_name.kind == "text"
    # Of the text formats, only those without a suffix of their own are known by their first bytes.
    may_match = _MAGIC[bool(suffix) and not is_text].match(first)
    for row in registry.FORMATS if may_match else ():
        if row.magic is None or not row.magic.match(first):
            continue
        if row.is_container and suffix in DOCUMENT_SUFFIXES:
            continue  # a document that is packed, such as a workbook: its parts are no texts
        if row.is_binary or not suffix or (row.magic_beats_text and is_text):
            return row.kind
    if by_name is None:
        added = plugins.by_magic(suffix, first)
        return "text" if added is None else added.kind
    return by_name.kind


def reader_faults(name: str) -> tuple[str, ...]:
    """Return a line for each broken reader of another package that a file of this name may have needed."""
    suffix = splitext(name)[1].lower()  # noqa: PTH122 (it is called for each file)
    return () if suffix in _BY_SUFFIX else plugins.faults(suffix)


def readable_kind(name: str, first: bytes, *, pictures: bool) -> str:
    """Return the kind of a file that begins with `first`. Raises NotRead if it is binary or not supported, or
    a picture that no model will look at and whose words are not recognized."""
    kind = kind_of(name, first)
    row = registry.format_of(kind)
    if row.is_picture and not pictures and not has_extra("ocr"):
        raise NotRead("binary (a picture)", f"{RECOGNIZE_REMEDY}, or {LOOK_REMEDY}", "other")
    is_binary = not row.is_binary and looks_binary(first[:HEAD])
    found = None if row.package else unsupported_format(name, first, is_binary=is_binary)
    if is_binary and (found is None or not found.remedy) and (broken := reader_faults(name)):
        fault, _, remedy = broken[0].rpartition(": ")
        raise NotRead(f"binary, and {fault}", remedy)
    if found is not None:
        what = f"binary ({found.what})" if is_binary else found.what
        if found.remedy:
            raise NotRead(what, found.remedy)
        raise NotRead(what, kind="other" if found.holds_text else "nothing")
    if is_binary:
        raise NotRead("binary", kind="other")
    return kind
