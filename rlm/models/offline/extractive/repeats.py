"""Repeated lines of an extract, and marks that its text has of its own."""

from __future__ import annotations

import re

__all__ = ["MIN_REPEATED", "TIMESTAMP", "plain_marks", "times", "without_time"]

TIMESTAMP = (
    r"^\W*(?:\d{4}-\d\d-\d\d|\d\d?[/.]\d\d?[/.]\d{2,4}|[A-Z][a-z]{2} +\d\d?)?[T ,]*"
    r"(?:\d\d?:\d\d(?::\d\d)?(?:[.,]\d+)?)?(?:Z|[+-]\d\d:?\d\d)?\W*"
)
"""The time at the start of a line."""
MIN_REPEATED = 8
"""Characters of a line, without its time, that may be repeated."""

_TIMESTAMP = re.compile(TIMESTAMP)
_OWN_MARK = re.compile("\\[([⁰¹²³⁴⁵⁶⁷⁸⁹]+(?:[,; ]+[⁰¹²³⁴⁵⁶⁷⁸⁹]+)*)\\]")


def without_time(line: str) -> str:
    """Return a line of a log without the time at its start: repeated lines differ in it."""
    return _TIMESTAMP.sub("", line, count=1)


def times(count: int) -> str:
    """Return ` (50 times)` for a repeated line, and "" for any other."""
    return f" ({count:,} times)" if count > 1 else ""


def plain_marks(line: str) -> str:
    """Return a line whose own marks in the form of ours (`[²]`) are in round brackets."""
    return _OWN_MARK.sub(r"(\1)", line)
