"""Read the fields of records, and tell which hold numbers, dates, names or long text."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field

__all__ = ["Field", "Record", "flatten", "log_record", "measure", "norm", "plural", "to_date", "to_number"]

Record = dict[str, list[str]]
"""The values of each field as text. A field of objects has the names of these."""

_LABELS = ("name", "login", "displayName", "title", "value", "label", "key")
_MAX_VALUES = 20_000
_MAX_ITEMS = 100
_LONG = 80
"""Characters of a value that may be a name. A longer one is text."""
_MOSTLY = 0.9
_DATE = re.compile(r"((?:19|20)\d\d)[-/](\d\d)(?:[-/](\d\d))?(?:[T ](\d\d:\d\d(?::\d\d(?:\.\d+)?)?)|$)")
_CURRENCY = r"(?:[$€£¥]|(?:USD|EUR|GBP|CHF|JPY)\b)?"
_NUMBER = re.compile(
    rf"(?P<open>\()?(?P<sign>[+-])?{_CURRENCY}\s?(?P<sign2>[+-])?"
    r"(?P<digits>(?:\d{1,3}(?:,\d{3})+|\d{1,3}(?:['’]\d{3})+|\d+)?(?:\.\d+)?)"
    rf"\s?(?:%|{_CURRENCY})(?(open)\))"
)
_LOG = re.compile(
    r"\W{0,2}(?P<time>\d{4}-\d\d-\d\d[T ]\d\d:\d\d(?::\d\d)?(?:[.,]\d+)?(?:Z|[+-]\d\d:?\d\d)?)\W{0,3}"
    r"(?P<level>TRACE|DEBUG|INFO|NOTICE|WARN(?:ING)?|ERROR|CRITICAL|FATAL)\b\W{0,3}"
    r"(?:(?P<source>[\w./-]{1,40})\]?:\s)?(?P<message>.*)",
)
_PAIR = re.compile(r"(?<!\S)([A-Za-z_][\w.]{0,30})=(\"[^\"]*\"|[^\s,;]+)")


@dataclass
class Field:
    """What is known of a field: `values` counts its values by their words; `shown` spells them."""

    name: str
    count: int = 0
    numbers: int = 0
    dates: int = 0
    long: int = 0
    values: Counter[tuple[str, ...]] = field(default_factory=Counter)
    shown: dict[tuple[str, ...], str] = field(default_factory=dict)
    is_full: bool = False

    @property
    def last(self) -> str:
        return self.name.rsplit(".", 1)[-1]

    @property
    def words(self) -> tuple[str, ...]:
        return norm(self.last)

    @property
    def is_number(self) -> bool:
        return self.numbers >= _MOSTLY * max(1, self.count)

    @property
    def is_date(self) -> bool:
        return self.dates >= _MOSTLY * max(1, self.count)

    @property
    def is_text(self) -> bool:
        return self.long > 0.1 * self.count or (self.is_full and not self.is_number)

    @property
    def is_id(self) -> bool:
        """Whether each record has its own value, and the values are no text, amounts or dates."""
        distinct = len(self.values) >= self.count > 1 or self.is_full
        blanks = sum(" " in shown for shown in self.shown.values())
        named = self.words[-1:] in (("id",), ("key",), ("number",), ("no",), ("uuid",), ("code",))
        return distinct and not self.is_date and not blanks and (named or not self.is_number)


def norm(text: str) -> tuple[str, ...]:
    """Return the words of a text in lower case, without the `s` of a plural: `In_Progress` → in, progress."""
    parts = re.sub(r"(?<=[a-z])(?=[A-Z])", " ", text).casefold()
    words = (word for word in re.split(r"[\W_]+", parts) if word)
    return tuple(
        word[:-1] if len(word) > 3 and word[-1] == "s" and word[-2] != "s" else word for word in words
    )


def plural(words: tuple[str, ...]) -> tuple[str, ...]:
    """Return the words of a name as `norm` gives them for its plural in `-es`: `city` as in cities."""
    if not words:
        return words
    last = words[-1]
    if last[-1] == "y" and last[-2:-1] not in ("", "a", "e", "o", "u"):
        return *words[:-1], f"{last[:-1]}ie"
    if last.endswith(("x", "z", "ch", "sh", "ss")):
        return *words[:-1], f"{last}e"
    # `norm` takes the s of `status` for that of a plural.
    return *words[:-1], f"{last}se"


def to_date(text: str) -> str | None:
    """Return a date as text that sorts by time (`2026-03`, `2026-03-04 10:00`), or None. Ignores zones."""
    found = _DATE.match(text.strip())
    if not found:
        return None
    day = "-".join(part for part in found.group(1, 2, 3) if part)
    return f"{day} {found[4]}" if found[4] else day


def to_number(text: str) -> float | None:
    """Return the number that a text is (`1,200`, `$5`, `12.5 %`, `1'234.50`, `(1,200)`), or None."""
    found = _NUMBER.fullmatch(text.strip())
    if not found or not re.search(r"\d", found["digits"]):
        return None
    number = float(re.sub(r"[,'’]", "", found["digits"]))
    # `(5)` may be the number of a note. `(1,200)` and `(35.20)` are amounts below zero.
    if found["open"] and found["digits"].isdigit() and len(found["digits"]) < 3:
        return None
    return -number if found["open"] or "-" in (found["sign"], found["sign2"]) else number


def flatten(value: object) -> Record:
    """Return the fields of a record. Those of an object within it are named by their path; an object with a
    name is that name."""
    record: Record = {}
    if isinstance(value, dict):
        for path, text in _walk(value, ""):
            record.setdefault(path, []).append(text)
    return record


def _walk(value: object, path: str) -> Iterator[tuple[str, str]]:
    if isinstance(value, dict):
        label = next((key for key in _LABELS if path and isinstance(value.get(key), str)), None)
        for key, inner in value.items():
            yield from _walk(inner, path if key == label else f"{path}.{key}" if path else str(key))
    elif isinstance(value, list):
        for inner in value[:_MAX_ITEMS]:
            yield from _walk(inner, path)
    elif isinstance(value, bool):
        yield path, "yes" if value else "no"
    elif isinstance(value, (str, int, float)) and str(value).strip():
        yield path, str(value).strip()


def log_record(line: str) -> Record | None:
    """Return time, level, source, message and the pairs `key=value` of a log's line; None for other lines."""
    found = _LOG.match(line)
    if not found:
        return None
    record = {name: [text] for name, text in found.groupdict().items() if text}
    for key, text in _PAIR.findall(found["message"]):
        record.setdefault(key, [text.strip('"')])
    return record


def measure(records: Iterable[Record]) -> tuple[dict[str, Field], int]:
    """Return what is known of each field, and the number of records."""
    fields: dict[str, Field] = {}
    total = 0
    for record in records:
        total += 1
        for name, values in record.items():
            own = fields.setdefault(name, Field(name))
            for text in values:
                own.count += 1
                own.numbers += to_number(text) is not None
                own.dates += to_date(text) is not None
                if len(text) > _LONG:
                    own.long += 1
                elif not own.is_full:
                    key = norm(text)
                    own.values[key] += 1
                    own.shown.setdefault(key, text.strip("\"'"))
                    own.is_full = len(own.values) > _MAX_VALUES
    return fields, total
