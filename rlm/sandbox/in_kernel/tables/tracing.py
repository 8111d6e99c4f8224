"""Finds the records that a computed row comes from: SQLite itself collects their numbers, group by group."""

from __future__ import annotations

import re
from array import array
from collections.abc import Sequence
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import sqlite3

__all__ = ["MAX_TRACED", "SHOWN_RECORDS", "extreme_columns", "trace", "with_trace"]

MAX_TRACED = 300_000
"""Records of a table whose queries are traced, which takes about as long as the query itself."""
SHOWN_RECORDS = 3
_NAME = "rlm_records"
_SELECT = re.compile(r"\s*select\s+(?!distinct\b|all\b)", re.IGNORECASE)
_OTHER = re.compile(
    r"\b(?:union|intersect|except|join|with|values|over)\b|\b(?:order|group)\s+by\s+\d|\brlm_records\b",
    re.IGNORECASE,
)
_EXTREME = re.compile(r"\b(max|min)\s*\(\s*(?:\"([^\"]+)\"|\[([^\]]+)\]|(\w+))\s*\)", re.IGNORECASE)


def with_trace(query: str) -> str:
    """Return a query with the records of each row as its first column, or "" if that may change it."""
    if not _SELECT.match(query) or _OTHER.search(query):
        return ""
    return _SELECT.sub(f"select {_NAME}(_rowid_), ", query, count=1)


def trace(connection: sqlite3.Connection) -> list[array[int]]:
    """Let the next query of a connection collect records in a list. Its first column tells which are the
    records of a row."""
    found: list[array[int]] = []

    class Records:
        def __init__(self) -> None:
            self._numbers = array("q")

        def step(self, number: int) -> None:
            self._numbers.append(number)

        def finalize(self) -> int:
            found.append(self._numbers)
            return len(found) - 1

    connection.create_aggregate(_NAME, 1, Records)
    return found


def extreme_columns(query: str, columns: Sequence[str]) -> list[tuple[str, str]]:
    """Return the columns whose highest or lowest value a query asks for, and the order that has it first."""
    own = {name.casefold(): name for name in columns}
    asked = [
        (own[name], "DESC" if word.casefold() == "max" else "ASC")
        for word, *found in _EXTREME.findall(query)
        if (name := "".join(found).casefold()) in own
    ]
    return list(dict.fromkeys(asked))
