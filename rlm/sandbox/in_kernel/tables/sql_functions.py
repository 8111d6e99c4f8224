"""Functions that SQLite lacks, or has for ASCII only."""

from __future__ import annotations

import re
import statistics
from functools import lru_cache
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

__all__ = ["add_functions"]


def add_functions(connection: sqlite3.Connection) -> None:
    """Add REGEXP and median, and let LIKE, lower and upper know letters beyond ASCII."""
    connection.create_function("regexp", 2, _regexp, deterministic=True)
    connection.create_function("like", 2, _like, deterministic=True)
    connection.create_function("like", 3, _like, deterministic=True)
    connection.create_function("lower", 1, lambda value: _changed(value, str.lower), deterministic=True)
    connection.create_function("upper", 1, lambda value: _changed(value, str.upper), deterministic=True)
    connection.create_aggregate("median", 1, Median)  # type: ignore[arg-type]


class Median:
    """The median of the numbers of a column."""

    def __init__(self) -> None:
        self._values: list[float] = []

    def step(self, value: Any) -> None:
        """Take one value."""
        if isinstance(value, (int, float)):
            self._values.append(value)

    def finalize(self) -> float | None:
        """Return the median, or None without a number."""
        return statistics.median(self._values) if self._values else None


def _changed(value: Any, change: Any) -> Any:
    return change(value) if isinstance(value, str) else value


def _regexp(pattern: Any, value: Any) -> bool | None:
    if pattern is None or value is None:
        return None
    return re.search(str(pattern), str(value)) is not None


def _like(pattern: Any, value: Any, escape: str = "") -> bool | None:
    if pattern is None or value is None:
        return None
    return _like_pattern(str(pattern), escape).fullmatch(str(value)) is not None


@lru_cache(maxsize=100)
def _like_pattern(pattern: str, escape: str) -> re.Pattern[str]:
    parts = []
    chars = iter(pattern)
    for char in chars:
        if char == escape:
            parts.append(re.escape(next(chars, "")))
        else:
            parts.append({"%": ".*", "_": "."}.get(char, re.escape(char)))
    return re.compile("".join(parts), re.IGNORECASE | re.DOTALL)
