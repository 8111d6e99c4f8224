"""Find sources that contradict each other, as a model lists them."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from itertools import combinations
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.retrieval.function_words import FUNCTION_WORDS
from rlm.retrieval.words import Tokens

__all__ = ["Conflict", "may_conflict", "read_conflicts"]

_MIN_SHARED = 3
"""Words that two statements about the same thing have in common at least."""
_MIN_SHARED_NAMED = 2
"""The same of two statements that share a name, which is one of these words."""
_NAMED = re.compile(r"(?<=[\w,;:] )[A-Z][\w'’-]+")
_MAY_SHARE = 0.3
"""The share of the shorter statement's words that two statements about the same thing have in common."""


@dataclass(frozen=True, slots=True)
class Conflict:
    """The numbers of sources that contradict each other, what they disagree about, and the whole sentences of
    each of these sources."""

    sources: tuple[int, ...]
    about: str
    statements: tuple[str, ...] = ()


def may_conflict(statements: Mapping[int, str]) -> list[int]:
    """Return the numbers of the sources that have a subject in common with another one, so that the two can
    contradict each other. Sources of independent questions have none. One that another contains says nothing
    of its own."""
    folded = {number: " ".join(text.casefold().split()) for number, text in statements.items()}
    numbers = [
        number
        for at, (number, text) in enumerate(folded.items())
        if not any(
            text in other and (text != other or before < at)
            for before, (one, other) in enumerate(folded.items())
            if one != number
        )
    ]
    with closing(Tokens()) as tokens:
        words = [_telling(stems) for stems in tokens.stems([statements[one] for one in numbers])]
        names = [
            _telling(stems)
            for stems in tokens.stems([" ".join(_NAMED.findall(statements[one])) for one in numbers])
        ]
    found: set[int] = set()
    for one, other in combinations(range(len(numbers)), 2):
        shared = words[one] & words[other]
        enough = max(_MIN_SHARED, _MAY_SHARE * min(len(words[one]), len(words[other])))
        if len(shared) >= enough or (names[one] & names[other] and len(shared) >= _MIN_SHARED_NAMED):
            found |= {numbers[one], numbers[other]}
    return [number for number in numbers if number in found]


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


def _telling(stems: Sequence[str]) -> set[str]:
    return {stem for stem in stems if stem not in FUNCTION_WORDS and len(stem) > 1 and not stem.isdigit()}
