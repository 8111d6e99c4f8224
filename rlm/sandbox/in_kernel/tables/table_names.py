"""Makes names for SQL from the names of documents."""

from __future__ import annotations

import re
from collections.abc import Sequence
from pathlib import PurePosixPath

from ..context_handle.columns import distinct

__all__ = ["table_names"]

_DATA_SUFFIXES = frozenset({".csv", ".tsv", ".json", ".jsonl", ".ndjson", ".xlsx", ".xls", ".ods"})
_KEYWORDS = """
    add all alter and as autoincrement between case check collate commit constraint create default
    deferrable delete distinct drop else escape except exists foreign from group having in index insert
    intersect into is isnull join limit not nothing notnull null on or order primary references
    returning select set table then to transaction union unique update using values when where
"""
_RESERVED = frozenset(_KEYWORDS.split())
"""Words that SQLite takes for no name."""


def table_names(documents: Sequence[str]) -> list[str]:
    """Return a name for each document, in order: its last part as an identifier, with the part above it where
    two would have the same name, and with a number where that does not help."""
    parts = [[_identifier(part) for part in PurePosixPath(name).parts if part != "/"] for name in documents]
    last = [one[-1] if one else "table" for one in parts]
    often: dict[str, int] = {}
    for name in last:
        often[name.casefold()] = often.get(name.casefold(), 0) + 1
    long = [
        "_".join(one[-2:]) if often[name.casefold()] > 1 and len(one) > 1 else name
        for one, name in zip(parts, last, strict=True)
    ]
    return distinct([_allowed(name) for name in long], str.casefold)


def _identifier(part: str) -> str:
    stem = PurePosixPath(part).stem
    while PurePosixPath(stem).suffix.lower() in _DATA_SUFFIXES:
        stem = PurePosixPath(stem).stem
    return re.sub(r"\W+", "_", stem).strip("_")[:60]


def _allowed(name: str) -> str:
    if not name:
        return "table_"
    if name[0].isdigit() or name.casefold().startswith("sqlite_"):
        return f"t_{name}"
    return f"{name}_" if name.casefold() in _RESERVED else name
