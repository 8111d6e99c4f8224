"""Prints hits: one line for each line of the text, with what stands around the first match on it."""

from __future__ import annotations

from itertools import groupby, islice
from typing import Any

from .records import Hit, Text

__all__ = ["hit_lines"]

_MOST_LINES = 20
_MOST_HITS = 400
"""Hits looked at for these lines."""
_BEFORE, _AFTER = 53, 107
"""Characters of an excerpt around the start of a match."""
_FIELDS = frozenset({"index", "start", "end", "line", "match", "document"})


def hit_lines(hits: list[Any]) -> tuple[list[str], int]:
    """Return the lines that show the first hits of a list, and how many hits they show.

    Hits on one line of the text are shown together. Items that a cell has changed or added are shown as they
    are.
    """
    lines: list[str] = []
    shown = 0
    groups = groupby(islice(list.__iter__(hits), _MOST_HITS), _line_of)
    for is_whole, group in ((key[0], list(items)) for key, items in islice(groups, _MOST_LINES)):
        lines.append(_line(group) if is_whole else f"  {group[0]!r}")
        shown += len(group)
    return lines, shown


def _line_of(item: Any) -> tuple[bool, Any, Any]:
    """Return what hits on one line have in common. Other items have nothing in common."""
    text = item.get("line_text") if isinstance(item, Hit) else None
    if not isinstance(text, Text) or text.span is None or not item.keys() >= _FIELDS:
        return False, id(item), None
    return True, item["document"], item["line"]


def _line(group: list[Hit]) -> str:
    first, start, end = group[0], group[0]["start"], group[-1]["end"]
    head = f"[{first['index']}]" if len(group) == 1 else f"[{first['index']}-{group[-1]['index']}]"
    count = "" if len(group) == 1 else f" {len(group)} hits,"
    text = first["line_text"]
    size = _BEFORE + _AFTER
    low = max(0, min(start - text.span.start - _BEFORE, len(text) - size))
    excerpt = ("…" if low else "") + text[low : low + size] + ("…" if low + size < len(text) else "")
    beyond = sum(hit["start"] >= text.span.start + low + size for hit in group)
    more = f" (+{beyond} more on it)" if beyond else ""
    return f"  {head}{count} {start}-{end}, line {first['line']} of {first['document']}: {excerpt}{more}"
