"""Choose the extracts of a slice that match a question: the answer of a child without a model."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from itertools import pairwise

from rlm.citation_markers import marker
from rlm.lazy_dataclass import dataclass
from rlm.models.base import Request
from rlm.models.offline.extractive.answer_texts import HEADING
from rlm.models.offline.extractive.repeats import plain_marks, times, without_time
from rlm.models.offline.extractive.sentences import are_records, are_turns, sentences
from rlm.models.offline.extractive.words import (
    asks_for_all,
    distinctive_terms,
    is_overview,
    parts,
    subject_words,
    terms,
    wants_summary,
)
from rlm.prompts import NOT_FOUND
from rlm.retrieval.function_words import FUNCTION_WORDS
from rlm.retrieval.words import Tokens

__all__ = [
    "BUDGET",
    "LONGEST_EXTRACT",
    "Extract",
    "extracts",
    "read",
]

BUDGET = 5_000
"""Characters of all extracts of a summary: about five passages of a thousand."""
LONGEST_EXTRACT = 590
"""Characters of one extract: less than what a citation shows."""
_ANSWER = 2_400
"""Characters of the extracts that answer a question: a dozen lines."""
_MAX_ANSWERS = 6
_MAX_RECORDS = 3
_NEAR = 0.5
"""The share of the best record's score that another one needs to be shown."""
_WINDOW = 400
_FEW_WORDS = 14
"""In questions with more subject words, distinctive terms are not what the question is about."""
_PRECISE = 3
_PRECISE_ALL = 8
_DEFINES = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|fn|func)\s+(\w+)")
_CODE = re.compile(r"[a-z_][\w.]*", re.IGNORECASE)
_BEGINS = re.compile(r"#|(?:[-*+•–]{1,2}|\d{1,3}[.)])\s")
_LEAD = 0.6
"""The share of a sentence's score that is passed on to the next sentence."""
_REPEATED = 0.75
"""The factor by which a word of the question loses weight each time an extract contains it."""
_NOVELTY = 0.35
_PHRASE = 0.5
"""The extra weight of two words of the question that stand next to each other, as a share of their own."""
_FILLING = 1e-6
_MIN_SHARE = 0.03
"""Extracts that score less than this share of the best are dropped."""


@dataclass(frozen=True, slots=True)
class Extract:
    """A verbatim part of one of the pieces. Compare `score` only with extracts of the same call."""

    piece: int
    start: int
    end: int
    text: str
    score: float


@dataclass(slots=True)
class _Unit:
    """A sentence or a record: its place, its stems, the pairs of stems next to each other, and its score."""

    piece: int
    start: int
    end: int
    text: str
    stems: frozenset[str]
    pairs: frozenset[tuple[str, str]]
    is_record: bool
    score: float = 0.0


def read(request: Request) -> str:
    """Return the extracts, best first, each on its own line with white space collapsed; NOT_FOUND if nothing
    matches. A direct answer repeats them as evidence."""
    found = extracts(request.task, [piece.text for piece in request.slices])
    if not found:
        return NOT_FOUND
    lines = [" ".join(extract.text.split()) for extract in found]
    if request.role == "direct":
        quotes = "\n".join(f'"{line}"' for line in lines)
        whole = [" ".join(line.split()) for piece in request.slices for line in piece.text.split("\n")]
        repeated = Counter(map(without_time, whole))
        cited = "\n\n".join(
            f"{plain_marks(line)} {marker(number)}{times(repeated[without_time(line)])}"
            for number, line in enumerate(lines, 1)
        )
        return f"{HEADING}\n{cited}\n\nEvidence:\n{quotes}"
    return "\n".join(lines)


def extracts(question: str, pieces: Sequence[str], *, budget: int = BUDGET) -> list[Extract]:
    """Return the extracts that match the question, best first, at most `budget` characters in total.

    If the question has a distinctive term (an identifier, a number, a quoted phrase) that the pieces contain,
    the extracts are the few sentences with it. For other questions they are at most six windows of up to 400
    characters with the question's words and phrases; among equals those that differ most. For a request for a
    summary they are the windows of up to 590 characters that cover most of the recurring topics. A record (a
    line of a log, a row) is an extract of its own, and of equal records the first. Earlier pieces weigh a
    little more, so pass the best first.
    """
    tokens = Tokens()
    try:
        units = _split_units(pieces, tokens)
        if not units:
            return []
        named = [term.casefold() for term in distinctive_terms(question)]
        if len(subject_words(question).split()) > _FEW_WORDS:
            named = []
        whole = is_overview(question)
        subject = subject_words(question) or question
        query = set() if whole else set(tokens.query(subject).stems)
        phrases = set(pairwise(tokens.stems([subject])[0]))
    finally:
        tokens.close()
    units = _fold(units)
    precise = _find_precise(question, named, units)
    if precise:
        return precise
    summary = wants_summary(question)
    if whole:
        chosen = _choose_covering(units, budget)
    else:
        _weigh(units, query, phrases)
        chosen = _choose_matching(
            units, query, phrases, budget if summary else min(budget, _ANSWER), fill=summary
        )
    wanted = [] if whole or summary else [term.casefold() for term in terms(question)]
    found = []
    for score, first, last in chosen:
        start, end = _focus(pieces[first.piece], first.start, last.end, wanted)
        found.append(Extract(first.piece, start, end, pieces[first.piece][start:end], score))
    return found


def _focus(text: str, start: int, end: int, wanted: Sequence[str]) -> tuple[int, int]:
    """Return the part of a long extract around its rarest wanted word, cut at blanks."""
    if end - start <= _WINDOW:
        return start, end
    folded = text[start:end].casefold()
    counts = {term: folded.count(term) for term in wanted if term in folded}
    if not counts or len(folded) != end - start:
        return start, end
    at = start + folded.index(min(counts, key=counts.__getitem__))
    low, high = max(start, at - _WINDOW // 2), min(end, at + _WINDOW // 2)
    if low > start:
        low = text.find(" ", low, at) + 1 or low
    if high < end:
        high = max(text.rfind(" ", at, high), at + 1)
    return low, high


def _split_units(pieces: Sequence[str], tokens: Tokens) -> list[_Unit]:
    places = [(number, *place) for number, piece in enumerate(pieces) for place in sentences(piece)]
    stems = tokens.stems(pieces[number][start:end] for number, start, end in places)
    records = [are_records(piece) and not are_turns(piece) for piece in pieces]
    return [
        _Unit(
            number,
            start,
            end,
            pieces[number][start:end],
            frozenset(own),
            frozenset(pairwise(stem for stem in own if stem not in FUNCTION_WORDS)),
            records[number],
        )
        for (number, start, end), own in zip(places, stems, strict=True)
    ]


def _fold(units: list[_Unit]) -> list[_Unit]:
    """Return the units without the records that differ from an earlier one only in their time."""
    seen: set[str] = set()
    kept = []
    for unit in units:
        text = without_time(unit.text)
        if not unit.is_record or text not in seen:
            kept.append(unit)
            seen.add(text)
    return kept


def _rate_phrases(
    pairs: frozenset[tuple[str, str]], phrases: set[tuple[str, str]], weights: Mapping[str, float]
) -> float:
    """Return the extra weight of the question's words that stand next to each other here, too."""
    return _PHRASE * sum(weights.get(one, 0.0) + weights.get(two, 0.0) for one, two in pairs & phrases)


def _weigh(units: list[_Unit], query: set[str], phrases: set[tuple[str, str]]) -> None:
    """Score each unit by the rarity of its query words and phrases, plus a share of its predecessor's
    score."""
    frequency = Counter(stem for unit in units for stem in unit.stems & query)
    weights = {stem: math.log(1 + len(units) / count) for stem, count in frequency.items()}
    lead = 0.0
    piece = -1
    for unit in units:
        own = sum(weights[stem] for stem in unit.stems & query)
        own += _rate_phrases(unit.pairs, phrases, weights)
        if unit.piece != piece:
            piece, lead = unit.piece, 0.0
        unit.score = own + lead
        defines = _DEFINES.match(unit.text)
        strong = 2.0 if defines and own else 1.0
        lead = _LEAD * max(own * strong, lead if lead > 0.5 else 0.0) * 0.5


def _find_precise(question: str, named: list[str], units: list[_Unit]) -> list[Extract]:
    """Return the best sentences with distinctive terms; empty if no term occurs. A sentence must contain as
    many numbers, compounds and phrases as any other does. A name from code may occur above it instead."""
    folded = [unit.text.casefold() for unit in units]
    forms = {form for term in named for form in (term, *(parts(term) if _CODE.fullmatch(term) else ()))}
    if not any(term in text for term in forms for text in folded):
        return []
    query_terms = [term.casefold() for term in terms(question)]
    frequency = {term: sum(term in text for text in folded) for term in query_terms}
    weights = {
        term: math.log(1 + len(units) / count) * (1 + min(len(term), 20) / 10)
        for term, count in frequency.items()
        if count
    }
    exact = [term for term in named if not _CODE.fullmatch(term)]
    counts = [sum(term in text for term in exact) for text in folded]
    highest = max(counts)
    scored = []
    lead: dict[str, float] = {}
    piece = -1
    for unit, text, count in zip(units, folded, counts, strict=True):
        if unit.piece != piece:
            piece, lead = unit.piece, {}
        own = {term: weight for term, weight in weights.items() if term in text}
        score = sum(max(own.get(term, 0.0), lead.get(term, 0.0)) for term in own.keys() | lead.keys())
        if count == highest and score:
            scored.append(Extract(unit.piece, unit.start, unit.end, unit.text, score))
        defines = _DEFINES.match(unit.text)
        if defines and defines[1].casefold() in own:
            if scored and not exact:
                scored[-1] = replace(scored[-1], score=score * 2)
            lead = {term: weight * (1.2 if exact else 2.4) for term, weight in own.items()}
        else:
            carried = {term: weight * _LEAD * _LEAD for term, weight in lead.items() if weight > 0.3}
            lead = {**carried, **{term: weight * _LEAD for term, weight in own.items()}}
    scored.sort(key=lambda extract: (-extract.score, extract.piece, extract.start))
    limit = _PRECISE_ALL if asks_for_all(question) else _PRECISE
    return [extract for extract in scored if extract.score >= 0.6 * scored[0].score][:limit]


def _choose_matching(
    units: list[_Unit], query: set[str], phrases: set[tuple[str, str]], budget: int, *, fill: bool
) -> list[tuple[float, _Unit, _Unit]]:
    """Choose windows with words of the question, as (score, first sentence, last sentence). A chosen window
    lowers the weight of its words; topics that no chosen window contains raise a score. With `fill`, windows
    that have only such topics use the remaining budget."""
    frequency = Counter(stem for unit in units for stem in unit.stems & query)
    weights = {stem: math.log(1 + len(units) / count) for stem, count in frequency.items()}
    subject = _weigh_topics(units, query)
    last = units[-1].piece
    seen: Counter[str] = Counter()
    covered: set[str] = set()

    def rate(window: _Window) -> float:
        relevance = sum(weights[stem] * _REPEATED ** seen[stem] for stem in window.stems & query)
        fresh = sum(subject.get(stem, 0.0) for stem in window.stems - covered)
        relevance += _rate_phrases(window.pairs, phrases, weights) * (1 if window.stems - covered else 0)
        prior = 1 - 0.5 * window.first.piece / (last + 1)
        if not relevance and fill:
            return _FILLING * fresh
        return relevance * (1 + prior) * (1 + _NOVELTY * fresh)

    def mark_used(window: _Window) -> None:
        seen.update(window.stems & query)
        covered.update(window.stems)

    windows = _grow_windows(units, LONGEST_EXTRACT if fill else _WINDOW)
    chosen = _choose_greedily(windows, rate, mark_used, budget, 0.0 if fill else _MIN_SHARE)
    if fill:
        return chosen
    if chosen and chosen[0][1].is_record:
        # A record says all or nothing of what is asked: those far below the best are no answer.
        return [one for one in chosen if one[0] >= _NEAR * chosen[0][0]][:_MAX_RECORDS]
    return chosen[:_MAX_ANSWERS]


def _choose_covering(units: list[_Unit], budget: int) -> list[tuple[float, _Unit, _Unit]]:
    """Choose windows that together cover most of the recurring topics, in the order of the text."""
    subject = _weigh_topics(units, set())
    covered: set[str] = set()

    def rate(window: _Window) -> float:
        return sum(subject.get(stem, 0.0) for stem in window.stems - covered)

    def mark_used(window: _Window) -> None:
        covered.update(window.stems)

    windows = _grow_windows(units, LONGEST_EXTRACT)
    chosen = _choose_greedily(windows, rate, mark_used, budget, 0.0)
    return sorted(chosen, key=lambda one: (one[1].piece, one[1].start))


@dataclass(frozen=True, slots=True)
class _Window:
    """The sentences `units[begin:end]` of one piece, and all their stems."""

    begin: int
    end: int
    first: _Unit
    last: _Unit
    stems: frozenset[str]
    pairs: frozenset[tuple[str, str]]


def _choose_greedily(
    windows: list[_Window],
    rate: Callable[[_Window], float],
    mark_used: Callable[[_Window], None],
    budget: int,
    min_share: float,
) -> list[tuple[float, _Unit, _Unit]]:
    """Choose the window with the highest score, repeatedly, without overlaps. Stops when the budget is used,
    or when a score falls below `min_share` of the first."""
    remaining = windows
    chosen: list[tuple[float, _Unit, _Unit]] = []
    while remaining:
        score, negative = max((rate(window), -number) for number, window in enumerate(remaining))
        best = remaining[-negative]
        if score <= 0 or (chosen and score < min_share * chosen[0][0]):
            break
        budget -= best.last.end - best.first.start
        mark_used(best)
        chosen.append((score, best.first, best.last))
        remaining = [
            window
            for window in remaining
            if (window.end <= best.begin or window.begin >= best.end)
            and window.last.end - window.first.start <= budget
        ]
    return chosen


def _weigh_topics(units: list[_Unit], without: set[str]) -> dict[str, float]:
    """Return the weight of each recurring word as a topic. The thirty highest weights add up to 1."""
    counts = Counter(stem for unit in units for stem in unit.stems)
    weights = {
        stem: math.log(1 + count)
        for stem, count in counts.items()
        if count > 1
        and len(stem) > 2
        and stem not in FUNCTION_WORDS
        and stem not in without
        and count < 0.5 * len(units)
        and not stem.isdigit()
    }
    top = sum(sorted(weights.values(), reverse=True)[:30])
    return {stem: weight / top for stem, weight in weights.items()} if top else {}


def _grow_windows(units: list[_Unit], longest: int) -> list[_Window]:
    """Grow a window from each sentence, each time by the neighbour with the higher score, up to `longest`
    characters. A record stays alone."""
    windows: dict[tuple[int, int], _Window] = {}
    for at, unit in enumerate(units):
        first = last = at
        while not unit.is_record:
            before = units[first - 1] if first and units[first - 1].piece == unit.piece else None
            after = units[last + 1] if last + 1 < len(units) and units[last + 1].piece == unit.piece else None
            # A heading or an item of a list begins a window, and is in no window of the text above it.
            if _BEGINS.match(units[first].text):
                before = None
            if after and _BEGINS.match(after.text):
                after = None
            if before and units[last].end - before.start > longest:
                before = None
            if after and after.end - units[first].start > longest:
                after = None
            if after and (not before or after.score >= before.score):
                last += 1
            elif before:
                first -= 1
            else:
                break
        if (first, last) not in windows:
            own = units[first : last + 1]
            stems = frozenset[str]().union(*(one.stems for one in own))
            pairs = frozenset[tuple[str, str]]().union(*(one.pairs for one in own))
            windows[first, last] = _Window(first, last + 1, units[first], units[last], stems, pairs)
    return list(windows.values())
