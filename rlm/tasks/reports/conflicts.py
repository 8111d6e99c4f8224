"""Find sources that contradict each other, as a model lists them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from typing import Any

from rlm.lazy_dataclass import dataclass

__all__ = ["Conflict", "read_conflicts"]


@dataclass(frozen=True, slots=True)
class Conflict:
    """The numbers of sources that contradict each other, what they disagree about, and the whole sentences of
    each of these sources."""

    sources: tuple[int, ...]
    about: str
    statements: tuple[str, ...] = ()


def read_conflicts(reply: str, statements: Mapping[int, str]) -> list[Conflict]:
    """Parse a model's reply: `[{"sources": [1, 4], "about": "…"}]`. Drops entries with fewer than two
    of the sources in `statements`. Raises ValueError if the reply has no such list."""
    found = []
    for entry in _entries(reply):
        if not isinstance(entry.get("sources"), list):
            continue
        numbers = dict.fromkeys(n for n in entry["sources"] if isinstance(n, int) and n in statements)
        about = " ".join(str(entry.get("about", "")).split())
        if len(numbers) > 1 and about:
            found.append(Conflict(tuple(numbers), about, tuple(statements[n] for n in numbers)))
    return found


def _entries(reply: str) -> list[dict[str, Any]]:
    """Return the objects of the first list of objects in a reply, none if its only list is empty. Other
    brackets may stand before it: `Passages [1] and [4] disagree: [{…}]`."""
    is_empty = False
    decoder = json.JSONDecoder()
    for start in (match.start() for match in re.finditer(r"\[\s*(?=[\]{])", reply)):
        try:
            entries, _ = decoder.raw_decode(reply, start)
        except (ValueError, RecursionError):
            continue
        if entries and all(isinstance(one, dict) for one in entries):
            return list(entries)
        is_empty = is_empty or not entries
    if not is_empty:
        raise ValueError("the reply has no JSON array")
    return []
