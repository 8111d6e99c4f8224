"""Find sources that contradict each other: those that a model lists, or those found by rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing
from itertools import combinations
from typing import Any

from rlm.lazy_dataclass import dataclass
from rlm.models.offline.extractive.sentences import sentences
from rlm.retrieval.function_words import FUNCTION_WORDS
from rlm.retrieval.words import Tokens
from rlm.tasks.reports.evidence_table import Source, without_headings

__all__ = ["Conflict", "find_conflicts", "may_conflict", "read_conflicts"]

_MAX_SENTENCES = 600
_ALIKE = 0.6
"""The share of all words of two sentences that must occur in both. The longer sentence must also contain all
words of the shorter: if each has words of its own, the two mostly have different subjects."""
_MIN_SHARED = 3
"""Words that both sentences must have, so that they have a subject in common."""
_MIN_SHARED_DENIED = 4
_MIN_SHARED_NAMED = 2
"""Words, a name among them, that two statements about the same thing have in common at least."""
_NUMBER = re.compile(r"\d[\d.,:/-]*")
_YEAR = re.compile(r"(?:1[5-9]|20)\d\d")
_WORD = re.compile(r"[^\W\d_][\w'’-]*")
_NUMBERED_WORDS = """
    act appendix article chapter clause day equation example experiment fig figure group item level line no
    number page paragraph part phase question room round scene section step table task version volume week
"""
_NUMBERED = frozenset(_NUMBERED_WORDS.split())
_LABEL = re.compile(r"[\[(][^\])\s]{1,12}[\])]|^\s*(?:\d+[.)]|[-*#>]+)\s")
"""Numbers of lines and of list items. They do not count anything."""
_NEGATION = re.compile(r"\b(?:not|never|no longer|cannot|nobody|none|without)\b|n['’]t\b", re.IGNORECASE)
_NO_CLAIM = re.compile(
    r"[?？]\s*[\"”’']?$|\b(?:if|whether|would|could|should|might|may|perhaps|maybe)\b", re.I
)
_LOWER = re.compile(r"\b[a-zà-öø-ÿ][\w'’-]{2,}")
_MIN_LOWER = 2
"""Lower-case words that a claim must have. Titles, headings and references have hardly any."""
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


@dataclass(frozen=True, slots=True)
class _Claim:
    """A sentence that claims something.

    `frame` holds the stems of its words without numbers and negations, `names` those of its capitalized
    words. `numbers` maps the stem of what is counted to the numbers. It excludes `years`, and `labels`:
    numbers that are part of a name (Table 3).
    """

    source: int
    text: str
    frame: frozenset[str]
    names: frozenset[str]
    numbers: Mapping[str, frozenset[str]]
    years: frozenset[str]
    labels: frozenset[str]
    denied: bool


def find_conflicts(sources: Sequence[Source], statements: Mapping[int, str] | None = None) -> list[Conflict]:
    """Find pairs of sentences from two sources that contradict each other. Uses no model. `statements` holds
    the whole sentences of the sources by number, if they are more than the passages.

    Two sentences with the same subject contradict each other if exactly one number differs, or if one of them
    is negated. If they also differ in a name, a year or a second number, they are about different things.
    The rules are strict, because every pair is shown to the reader unjudged.
    """
    found: dict[tuple[int, int], Conflict] = {}
    for one, other in combinations(_find_claims(sources, statements or {})[:_MAX_SENTENCES], 2):
        pair = (one.source, other.source)
        if one.source == other.source or pair in found or not _has_same_subject(one, other):
            continue
        about = (
            "different numbers"
            if _has_other_number(one, other)
            else "one denies it"
            if _is_denial(one, other)
            else ""
        )
        if about:
            found[pair] = Conflict(pair, about, (one.text, other.text))
    return list(found.values())


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


def _has_same_subject(one: _Claim, other: _Claim) -> bool:
    shared = one.frame & other.frame
    shorter = min(one.frame, other.frame, key=len)
    return (
        len(shared) >= _MIN_SHARED
        and shared == shorter
        and len(shared) >= _ALIKE * len(one.frame | other.frame)
        and not (one.names ^ other.names) - shared
        and one.labels == other.labels
    )


def _has_other_number(one: _Claim, other: _Claim) -> bool:
    """Return whether exactly one number differs. A year counts as one only if all words are the same."""
    if one.denied != other.denied and one.frame != other.frame:
        return False
    counted = one.numbers.keys() & other.numbers.keys()
    differ = [unit for unit in counted if not one.numbers[unit] & other.numbers[unit]]
    if not differ and not one.numbers and not other.numbers:
        return one.frame == other.frame and bool(one.years and other.years) and not one.years & other.years
    return len(differ) == 1 and one.years == other.years


def _is_denial(one: _Claim, other: _Claim) -> bool:
    same = one.numbers == other.numbers and one.years == other.years
    return one.denied != other.denied and same and len(one.frame & other.frame) >= _MIN_SHARED_DENIED


def _telling(stems: Sequence[str]) -> set[str]:
    return {stem for stem in stems if stem not in FUNCTION_WORDS and len(stem) > 1 and not stem.isdigit()}


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


def _find_claims(sources: Sequence[Source], statements: Mapping[int, str]) -> list[_Claim]:
    claims: list[tuple[int, str]] = []
    for source in sources:
        quote = statements.get(source.number) or without_headings(source.citation)
        for start, end in sentences(quote):
            text = " ".join(quote[start:end].split())
            if not _NO_CLAIM.search(text) and len(_LOWER.findall(text)) >= _MIN_LOWER:
                claims.append((source.number, text))
    plain = [_LABEL.sub(" ", text) for _, text in claims]
    with closing(Tokens()) as tokens:
        frames = tokens.stems([" ".join(_WORD.findall(_NEGATION.sub(" ", text))) for text in plain])
        names = tokens.stems([" ".join(_NAMED.findall(text)) for text in plain])
        units = dict(_stems(tokens, plain))
    found = []
    for (number, text), bare, frame, named in zip(claims, plain, frames, names, strict=True):
        numbers, years, labels = _numbers(bare, units)
        found.append(
            _Claim(
                number,
                text,
                frozenset(stem for stem in frame if stem not in FUNCTION_WORDS and len(stem) > 1),
                frozenset(named) - FUNCTION_WORDS,
                numbers,
                years,
                labels,
                _NEGATION.search(bare) is not None,
            )
        )
    return found


def _stems(tokens: Tokens, texts: Sequence[str]) -> Iterator[tuple[str, str]]:
    words = sorted({word.casefold() for text in texts for word in _WORD.findall(text)})
    for word, stems in zip(words, tokens.stems(words), strict=True):
        yield word, next(iter(stems), word)


def _numbers(
    text: str, stem_of: Mapping[str, str]
) -> tuple[Mapping[str, frozenset[str]], frozenset[str], frozenset[str]]:
    """Return numbers, years and labels. A number is filed under the stem of the word after it; if that is a
    function word, under the word before it."""
    numbers: dict[str, set[str]] = {}
    years: set[str] = set()
    labels: set[str] = set()
    for match in _NUMBER.finditer(text):
        number = match[0].strip(".,:/-")
        following = _WORD.match(text[match.end() :].lstrip(" %€$£-"))
        before = _WORD.findall(text[: match.start()])
        label = before[-1].casefold() if before else ""
        if label in _NUMBERED:
            labels.add(f"{label} {number}")
            continue
        if _YEAR.fullmatch(number):
            years.add(number)
            continue
        unit = following[0] if following and following[0].casefold() not in FUNCTION_WORDS else label
        numbers.setdefault(stem_of.get(unit.casefold(), unit.casefold()), set()).add(number)
    return {unit: frozenset(values) for unit, values in numbers.items()}, frozenset(years), frozenset(labels)
