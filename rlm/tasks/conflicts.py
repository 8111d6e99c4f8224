"""Sources that contradict each other: what a model names among them, or what can be seen without one."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from itertools import combinations

from rlm.models.extractive.sentences import sentences
from rlm.retrieval.words import FUNCTION_WORDS
from rlm.tasks.evidence_table import Source

__all__ = ["Conflict", "read_conflicts", "seen_conflicts"]

_MOST_SENTENCES = 600
_FRAME = 0.8
"""The share of the shorter sentence's words that the other has, beside numbers."""
_NEGATION_FRAME = 0.8
"""The share of the words of both that both have."""
_FEWEST = 2
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_NEGATION = re.compile(r"\b(?:not|never|no longer|cannot|nobody|none|without)\b|n['’]t\b", re.IGNORECASE)
_ARRAY = re.compile(r"\[.*\]", re.DOTALL)
_LONGEST = 300


@dataclass(frozen=True, slots=True)
class Conflict:
    """The numbers of sources that contradict each other, and on what."""

    sources: tuple[int, ...]
    about: str


@dataclass(frozen=True, slots=True)
class _Said:
    source: int
    text: str
    frame: frozenset[str]
    numbers: frozenset[str]
    denied: bool


def seen_conflicts(sources: Sequence[Source]) -> list[Conflict]:
    """Sentences of two sources that say the same about different numbers, or where one denies what the other
    says. What merely sounds alike may be among them: they are shown, not judged."""
    found: dict[tuple[int, int], Conflict] = {}
    for one, other in combinations(list(_said(sources))[:_MOST_SENTENCES], 2):
        pair = (one.source, other.source)
        if one.source == other.source or pair in found:
            continue
        shared = len(one.frame & other.frame)
        if shared < _FEWEST:
            continue
        held = shared / min(len(one.frame), len(other.frame))
        differ = held >= _FRAME and one.numbers and other.numbers and not one.numbers & other.numbers
        alike = shared / len(one.frame | other.frame)
        denied = alike >= _NEGATION_FRAME and one.denied != other.denied and one.numbers == other.numbers
        if differ or denied:
            found[pair] = Conflict(pair, f"“{one.text}” against “{other.text}”")
    return list(found.values())


def read_conflicts(reply: str, known: int) -> list[Conflict]:
    """What a model listed: `[{"sources": [1, 4], "about": "…"}]`. Entries that name fewer than two of the
    `known` sources are left out. Raises ValueError when the reply holds no such list."""
    array = _ARRAY.search(reply)
    if array is None:
        raise ValueError("the reply holds no JSON array")
    found = []
    for entry in json.loads(array[0]):
        if not isinstance(entry, dict) or not isinstance(entry.get("sources"), list):
            continue
        numbers = [n for n in entry["sources"] if isinstance(n, int) and 1 <= n <= known]
        about = " ".join(str(entry.get("about", "")).split())[:_LONGEST]
        if len(set(numbers)) > 1 and about:
            found.append(Conflict(tuple(dict.fromkeys(numbers)), about))
    return found


def _said(sources: Sequence[Source]) -> Iterator[_Said]:
    for source in sources:
        quote = source.citation.quote
        for start, end in sentences(quote):
            text = " ".join(quote[start:end].split())
            numbers = frozenset(number.strip(".,:/-") for number in _NUMBER.findall(text))
            words = (word.casefold() for word in _WORD.findall(_NEGATION.sub(" ", text)))
            frame = frozenset(word for word in words if word not in FUNCTION_WORDS)
            yield _Said(source.number, text[:_LONGEST], frame, numbers, _NEGATION.search(text) is not None)
