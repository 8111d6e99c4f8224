"""Prints hits: one line for each line of the text, with what stands around the matches."""

from __future__ import annotations

import json
import re
from itertools import islice
from typing import Any, NamedTuple

from ...text.body import Span
from .records import Hit, Text

__all__ = ["hit_lines"]

_MOST_LINES = 20
_MOST_HITS = 400
"""Hits looked at for these lines."""
_BEFORE, _AFTER = 53, 107
"""Characters of an excerpt around the start of a match."""
_MOST_WINDOWS = 3
_SHOWN_FIELD = 60
_NAMING_FIELDS = 2
_HEADING = re.compile(r"#{1,6}[ \t]+\S")
_FIELDS = frozenset({"index", "start", "end", "line", "match", "document"})


class _Shown(NamedTuple):
    """A hit with the part of its line that was read."""

    hit: Hit
    line: int
    text: Text
    span: Span


def hit_lines(hits: list[Any]) -> tuple[list[str], int]:
    """Return the lines that show the first hits of a list, and how many hits they show.

    Hits on one line of the text are shown together, and so are those of a heading and of the text below it.
    Of a JSON record the fields are shown. Items that a cell has changed or added are shown as they are.
    """
    lines: list[str] = []
    group: list[_Shown] = []
    shown_hits = 0
    for item in islice(list.__iter__(hits), _MOST_HITS):
        one = _read(item)
        if group and one is not None and _belongs(group, one):
            group.append(one)
            continue
        if group:
            lines.append(_line(group))
            shown_hits += len(group)
            group = []
        if len(lines) == _MOST_LINES:
            break
        if one is None:
            lines.append(f"  {item!r}")
            shown_hits += 1
        else:
            group = [one]
    if group and len(lines) < _MOST_LINES:
        lines.append(_line(group))
        shown_hits += len(group)
    return lines, shown_hits


def _read(item: Any) -> _Shown | None:
    text = item.get("line_text") if isinstance(item, Hit) else None
    if not isinstance(text, Text) or text.span is None or not item.keys() >= _FIELDS:
        return None
    return _Shown(item, item["line"], text, text.span)


def _belongs(group: list[_Shown], one: _Shown) -> bool:
    """Return whether a hit is shown with those before it: on their line, or below their heading."""
    last = group[-1]
    if one.hit["document"] != last.hit["document"]:
        return False
    if one.line == last.line:
        return True
    heading = _HEADING.match(last.text) is not None and last.line == group[0].line
    return heading and 0 < one.line - last.line <= 2 and _HEADING.match(one.text) is None


def _line(group: list[_Shown]) -> str:
    first, last = group[0], group[-1]
    start, end = first.hit["start"], last.hit["end"]
    if len(group) == 1:
        head = f"[{first.hit['index']}] {start}-{end}"
    else:
        head = f"[{first.hit['index']}-{last.hit['index']}] {len(group)} hits, {start}-{end}"
    lines = f"line {first.line}" if first.line == last.line else f"lines {first.line}-{last.line}"
    return f"  {head}, {lines} of {first.hit['document']}: {_excerpt(group)}"


def _excerpt(group: list[_Shown]) -> str:
    if len({one.line for one in group}) == 1:
        fields = _record_fields(group)
        if fields:
            return fields
    parts: list[str] = []
    left = 0
    for line in dict.fromkeys(one.line for one in group):
        windows = _windows([one for one in group if one.line == line])
        parts += windows[:_MOST_WINDOWS]
        left += len(windows[_MOST_WINDOWS:])
    more = f" (+{left} more places on it)" if left else ""
    return " / ".join(parts) + more


def _windows(group: list[_Shown]) -> list[str]:
    """Return the excerpts around the hits of one line. Those that overlap are one."""
    merged: list[tuple[int, int, _Shown]] = []
    for one in group:
        size = _BEFORE + _AFTER
        low = max(one.span.start, min(one.hit["start"] - _BEFORE, one.span.end - size))
        high = min(one.span.end, low + size)
        if merged and low <= merged[-1][1]:
            merged[-1] = (merged[-1][0], max(high, merged[-1][1]), merged[-1][2])
        else:
            merged.append((low, high, one))
    return [_cut(*window) for window in merged]


def _cut(low: int, high: int, one: _Shown) -> str:
    high = min(high, low + 3 * (_BEFORE + _AFTER))
    text = one.hit._source.text(low, high).rstrip("\n")
    return ("…" if low > one.span.start else "") + text + ("…" if high < one.span.end else "")


class _Field(NamedTuple):
    name: str
    value: Any
    start: int
    end: int


def _record_fields(group: list[_Shown]) -> str | None:
    """Return the fields of a line that is a JSON object, those with the matches in part, or None."""
    start, line = group[0].hit._source.record(group[0].hit)
    fields = _parse_fields(line)
    if not fields:
        return None
    matched = {
        number: _field_excerpt(field, group, start)
        for number, field in enumerate(fields)
        if any(field.start <= one.hit["start"] - start < field.end for one in group)
    }
    parts = []
    naming = 0
    for number, field in enumerate(fields):
        if number in matched:
            parts.append(matched[number])
        elif naming < _NAMING_FIELDS and isinstance(field.value, (str, int)) and str(field.value):
            naming += 1
            parts.append(f"{field.name}: {_plain(str(field.value))[:_SHOWN_FIELD]}")
    hidden = len(fields) - len(parts)
    return " · ".join(parts[: 2 * _MOST_WINDOWS]) + (f" · +{hidden} fields" if hidden else "")


def _parse_fields(line: str) -> list[_Field]:
    """Return the fields of a JSON object with their places in the line, names included."""
    text = line.strip().rstrip(",")
    if not text.startswith("{"):
        return []
    decoder = json.JSONDecoder()
    at = line.index("{") + 1
    fields: list[_Field] = []
    try:
        while True:
            at = _skip(line, at)
            if line[at] == "}":
                return fields
            start = at
            name, at = decoder.raw_decode(line, at)
            at = _skip(line, at)
            if line[at] != ":":
                return []
            value, at = decoder.raw_decode(line, _skip(line, at + 1))
            fields.append(_Field(name, value, start, at))
            at = _skip(line, at)
            if line[at] == ",":
                at += 1
    except (ValueError, IndexError, RecursionError):
        return []


def _skip(line: str, at: int) -> int:
    while line[at] in " \t\r\n":
        at += 1
    return at


def _field_excerpt(field: _Field, group: list[_Shown], start: int) -> str:
    """Return the name of a field and its value around the first match in it."""
    value = field.value if isinstance(field.value, str) else json.dumps(field.value, ensure_ascii=False)
    inside = [one for one in group if field.start <= one.hit["start"] - start < field.end]
    match = _decoded(inside[0].hit["match"])
    at = max(0, value.find(match))
    low = max(0, min(at - _BEFORE, len(value) - _BEFORE - _AFTER))
    high = low + _BEFORE + _AFTER
    text = _plain(value[low:high])
    return f"{field.name}: {'…' if low else ''}{text}{'…' if high < len(value) else ''}"


def _decoded(match: str) -> str:
    try:
        return str(json.loads(f'"{match}"'))
    except ValueError:
        return match


def _plain(text: str) -> str:
    return " ".join(text.split())
