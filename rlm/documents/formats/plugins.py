"""Formats that other packages register, by entry points of the group `rlm.readers`.

An entry point's object is a DocumentFormat, or a function without parameters that returns one. Loading one
runs code of its package in this process, so it happens only when a file has a suffix that no format of our
own has. The format's reader runs in the confined worker, like ours.
"""

from __future__ import annotations

import re
from dataclasses import replace
from functools import lru_cache
from typing import TYPE_CHECKING

from rlm.documents.formats.registry import ADDED, FORMATS, DocumentFormat

if TYPE_CHECKING:
    from importlib.metadata import EntryPoint

__all__ = ["by_magic", "by_suffix", "faults", "installed_readers"]

_GROUP = "rlm.readers"
_KIND = re.compile(r"[a-z][a-z0-9_-]{0,40}")
_SUFFIX = re.compile(r"\.[a-z0-9_+-]{1,20}")
_READER = re.compile(r"[A-Za-z_][\w.]*:[A-Za-z_]\w*")
_PLAIN = frozenset(("", ".txt", ".text", ".log"))
"""Suffixes of text, which no package is asked about."""


def by_suffix(suffix: str) -> DocumentFormat | None:
    """Return the format of another package for a suffix that no format of our own has."""
    return None if suffix in _PLAIN else next((row for row in _load()[0] if suffix in row.suffixes), None)


def by_magic(suffix: str, first: bytes) -> DocumentFormat | None:
    """Return the format of another package for a file that begins with `first`, and whose suffix no format
    has."""
    if suffix and suffix in _PLAIN:
        return None
    return next((row for row in _load()[0] if row.magic is not None and row.magic.match(first)), None)


def faults(suffix: str) -> tuple[str, ...]:
    """Return a line for each reader that could not be loaded, if a file with this suffix may need it."""
    return () if suffix in _PLAIN else _load()[1]


def installed_readers() -> list[str]:
    """Return the packages of the readers with their versions, sorted. Loads none of them."""
    return sorted(f"{_package(entry)} {entry.dist.version if entry.dist else ''}" for entry in _entries())


def _entries() -> list[EntryPoint]:
    from importlib.metadata import entry_points  # takes 20 ms to import

    try:
        return sorted(entry_points(group=_GROUP), key=lambda entry: (entry.name, entry.value))
    except Exception:  # the metadata of any installed package may be damaged
        return []


@lru_cache(maxsize=1)
def _load() -> tuple[tuple[DocumentFormat, ...], tuple[str, ...]]:
    """Load each entry point. Return the formats, which `format_of` knows from now on, and the faults."""
    rows: list[DocumentFormat] = []
    broken = []
    for entry in _entries():
        package = _package(entry)
        try:
            made = entry.load()
            row = made() if callable(made) else made
            _check(row, rows)
        except (Exception, SystemExit) as error:  # the boundary to the package: it may do anything
            first = (str(error).strip().splitlines() or [""])[0]
            broken.append(
                f"the reader {entry.name} of the package {package} cannot be loaded "
                f"({type(error).__name__}: {first[:200]}): update the package, or uninstall it"
            )
            continue
        article = row.article or f"a {row.kind} file"
        rows.append(replace(row, package=package, article=article, is_binary=True))
    ADDED[:] = rows
    return tuple(rows), tuple(broken)


def _check(row: object, others: list[DocumentFormat]) -> None:
    """Raise TypeError or ValueError for what is not a usable format. A name must not change its meaning, so
    kinds and suffixes that are taken are refused."""
    if not isinstance(row, DocumentFormat):
        raise TypeError(f"it is a {type(row).__name__}, not a DocumentFormat")
    taken = (*FORMATS, *others)
    if not _KIND.fullmatch(row.kind) or any(row.kind == other.kind for other in taken):
        raise ValueError(f"its kind {row.kind!r} is taken, or not in lower case")
    for suffix in row.suffixes:
        if not _SUFFIX.fullmatch(suffix) or any(suffix in other.suffixes for other in taken):
            raise ValueError(f"its suffix {suffix!r} is taken, or not in lower case with a dot")
    if not row.suffixes and row.magic is None:
        raise ValueError("it has neither suffixes nor magic bytes")
    if not _READER.fullmatch(row.reader) or row.page_reader:
        raise ValueError("it needs a reader, named 'module:function', and can have no reader of pictures")


def _package(entry: EntryPoint) -> str:
    return entry.dist.name if entry.dist is not None else entry.module.partition(".")[0]
