"""Names the columns of a table, and finds their types from its first rows.

A type belongs to a column: `007` is a text in a column of codes, though it has digits only.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import datetime
from typing import Any

__all__ = ["MISSING", "SAMPLED", "column_types", "distinct", "fits"]

SAMPLED = 1_000
"""Rows that decide the types of a table."""

_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9]\d{0,14})(?:\.\d*)?|\.\d+)(?:(?<=[.\d])[eE][+-]\d{1,3}|(?<=\.\d)[eE]\d{1,3})?",
    re.ASCII,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_BOOLEANS = frozenset({"true", "false"})
_OF_TEXT = frozenset({"integer", "number", "boolean", "date", "datetime"})
"""Types that a text may have besides text."""
MISSING = frozenset({"na", "n/a", "nan", "null", "none", "-"})
"""Texts that say that there is no value, in a column of numbers, dates or booleans."""
_WIDER = {
    frozenset({"integer", "number"}): "number",
    frozenset({"date", "datetime"}): "datetime",
}
_LONGEST = 40
"""Characters of a text that may be a number, a date or a boolean."""


def distinct(names: Sequence[str], fold: Callable[[str], str] = str) -> list[str]:
    """Return the names with a number added to each that was there before, so that none equals another.
    `fold=str.casefold` takes no notice of case."""
    taken = set(map(fold, names))
    last: dict[str, int] = {}
    result = []
    for name in names:
        key = fold(name)
        own, number = name, last.get(key, 0) + 1
        while number > 1 and fold(own := f"{name or 'column'}_{number}") in taken:
            number += 1
        last[key] = number
        taken.add(fold(own))
        result.append(own)
    return result


def fits(value: Any) -> str:
    """Return the type of one value: integer, number, boolean, date, datetime, text, list, object, or "" if
    there is none."""
    if isinstance(value, str):
        return _text_fits(value)
    if value is None:
        return ""
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, int):
        # A database holds no larger number exactly.
        return "integer" if abs(value) < 2**63 else "text"
    if isinstance(value, float):
        return "number"
    return "object" if isinstance(value, Mapping) else "list"


def _text_fits(value: str) -> str:
    text = value.strip()
    if not text:
        return ""
    if len(text) > _LONGEST:
        return "text"
    if _INTEGER.fullmatch(text):
        return "integer"
    if _NUMBER.fullmatch(text):
        return "number" if math.isfinite(float(text)) else "text"
    if text.lower() in _BOOLEANS:
        return "boolean"
    for kind, form in (("date", _DATE), ("datetime", _DATETIME)):
        if form.fullmatch(text):
            try:
                datetime.fromisoformat(text)
            except ValueError:
                return "text"
            return kind
    return "text"


def column_types(rows: Iterable[Mapping[str, Any]], *, from_json: bool) -> dict[str, str]:
    """Return the types of the columns by name: what all values of these rows fit.

    Texts of CSV always fit `text`; values of JSON may be `mixed`. JSON says what is a number or a boolean, so
    only its dates are looked for in texts.
    """
    seen: dict[str, set[str]] = {}
    missing: set[str] = set()
    for row in rows:
        for name, value in row.items():
            kinds = seen.setdefault(name, set())
            kind = fits(value)
            if isinstance(value, str):
                if kind == "text" and value.strip().lower() in MISSING:
                    missing.add(name)
                    continue
                if from_json and kind not in ("date", "datetime", ""):
                    kind = "text"
            if kind:
                kinds.add(kind)

    def common(kinds: set[str]) -> str:
        if len(kinds) == 1:
            return next(iter(kinds))
        return _WIDER.get(frozenset(kinds), "mixed" if from_json and kinds else "text")

    types = {name: common(kinds) for name, kinds in seen.items()}
    return {
        name: "text" if name in missing and (from_json or kind not in _OF_TEXT) else kind
        for name, kind in types.items()
    }
