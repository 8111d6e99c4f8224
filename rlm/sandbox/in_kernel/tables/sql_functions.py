"""Functions that SQLite lacks, or has for ASCII only."""

from __future__ import annotations

import re
import statistics
from collections.abc import Callable
from functools import lru_cache, wraps
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import sqlite3

__all__ = ["add_functions"]


def add_functions(connection: sqlite3.Connection) -> list[BaseException]:
    """Add REGEXP and median, and let LIKE, lower and upper know letters beyond ASCII. Return the list that
    gets what they raise, which SQLite does not tell."""
    raised: list[BaseException] = []

    def watched(function: Callable[..., Any]) -> Callable[..., Any]:
        @wraps(function)
        def call(*arguments: Any) -> Any:
            try:
                return function(*arguments)
            except BaseException as error:
                raised.append(error)
                raise

        return call

    for name, count, function in (
        ("regexp", 2, _regexp),
        ("like", 2, _like),
        ("like", 3, _like),
        ("lower", 1, _lower),
        ("upper", 1, _upper),
    ):
        connection.create_function(name, count, watched(function), deterministic=True)
    connection.create_aggregate("median", 1, Median)  # type: ignore[arg-type]
    return raised


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


def _lower(value: Any) -> Any:
    return value.lower() if isinstance(value, str) else value


def _upper(value: Any) -> Any:
    return value.upper() if isinstance(value, str) else value


def _regexp(pattern: Any, value: Any) -> bool | None:
    if pattern is None or value is None:
        return None
    try:
        return re.search(str(pattern), str(value)) is not None
    except re.error as error:
        raise ValueError(f"REGEXP {str(pattern)[:80]!r}: {error}") from None


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
