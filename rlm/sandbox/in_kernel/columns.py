"""Names the columns of a table, finds their types from its first rows, and converts the texts of CSV to them.

A type belongs to a column: `007` is a text in a column of codes, though it has digits only. A text that does
not fit its column stays a text.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from datetime import date, datetime
from typing import Any

__all__ = ["MISSING", "SAMPLED", "ColumnTypes", "distinct", "fits"]

SAMPLED = 1_000
"""Rows that decide the types of a table."""

_INTEGER = re.compile(r"[+-]?(?:0|[1-9]\d{0,17})", re.ASCII)
_NUMBER = re.compile(
    r"[+-]?(?:(?:0|[1-9]\d{0,14})(?:\.\d*)?|\.\d+)(?:(?<=[.\d])[eE][+-]\d{1,3}|(?<=\.\d)[eE]\d{1,3})?",
    re.ASCII,
)
_DATE = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII)
_DATETIME = re.compile(r"\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d(?:\.\d{1,9})?)?(?:Z|[+-]\d\d:?\d\d)?", re.ASCII)
_BOOLEANS = {"true": True, "false": False}
MISSING = frozenset({"na", "n/a", "nan", "null", "none", "-"})
"""Texts that say that there is no value, in a column of numbers, dates or booleans."""
_WIDER = {
    frozenset({"integer", "number"}): "number",
    frozenset({"date", "datetime"}): "datetime",
}
_LONGEST = 40
"""Characters of a text that may be a number, a date or a boolean."""


def _to_number(text: str) -> int | float:
    return int(text) if _INTEGER.fullmatch(text) else float(text)


_CONVERTERS: Mapping[str, Callable[[str], Any]] = {
    "integer": int,
    "number": _to_number,
    "boolean": lambda text: _BOOLEANS[text.lower()],
    "date": date.fromisoformat,
    "datetime": datetime.fromisoformat,
}


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


class ColumnTypes:
    """The types of the columns of one table, by name: what all of the sampled values fit.

    JSON says what is a number or a boolean, so only its dates are looked for in texts.
    """

    def __init__(self, rows: Iterable[Mapping[str, Any]], *, from_json: bool) -> None:
        self._from_json = from_json
        seen: dict[str, set[str]] = {}
        missing: set[str] = set()
        self.samples: dict[str, Any] = {}
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
                    self.samples.setdefault(name, value)
        self.by_name = {name: self._common(kinds) for name, kinds in seen.items()}
        for name in missing:
            if self.by_name[name] in _CONVERTERS and not from_json:
                continue
            self.by_name[name] = "text"

    def converted(self, name: str, value: Any) -> Any:
        """Return a value as the type of its column. A text that does not fit is returned as it is, one that
        says that there is none as None."""
        if not isinstance(value, str):
            return value
        kind = self.by_name.get(name, "text")
        if kind not in _CONVERTERS or (self._from_json and kind not in ("date", "datetime")):
            return value
        text = value.strip()
        own = fits(text)
        if not own or (own == "text" and text.lower() in MISSING):
            return None
        if own == kind or _WIDER.get(frozenset({own, kind})) == kind:
            return _CONVERTERS[kind](text)
        return value

    def row(self, value: Any) -> Any:
        """Return a row with its values converted. Anything but a dict is returned as it is."""
        if not isinstance(value, Mapping):
            return value
        return {name: self.converted(name, one) for name, one in value.items()}

    def _common(self, kinds: set[str]) -> str:
        """Return the type that all values fit. Texts of CSV always do; values of JSON may be mixed."""
        if len(kinds) == 1:
            return next(iter(kinds))
        other = "mixed" if self._from_json and kinds else "text"
        return _WIDER.get(frozenset(kinds), other)
