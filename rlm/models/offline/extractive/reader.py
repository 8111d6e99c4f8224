"""The extracts of a slice that fit a question: what a child answers when there is no model to read it."""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

from rlm.citation_markers import marker
from rlm.models.base import Request
from rlm.models.offline.extractive.answer_texts import HEADING
from rlm.models.offline.extractive.sentences import sentences
from rlm.models.offline.extractive.words import (
    asks_for_all,
    is_overview,
    parts,
    peculiar,
    telling,
    terms,
    wants_summary,
)
from rlm.prompts import NOT_FOUND
from rlm.retrieval.words import FUNCTION_WORDS, Tokens

__all__ = ["BUDGET", "LONGEST_EXTRACT", "Extract", "extracts", "read"]

BUDGET = 5_000
"""Characters of all extracts of one answer: as much as five passages of a thousand."""
LONGEST_EXTRACT = 590
"""Characters of one extract: less than what a citation shows."""
_FEW_WORDS = 14
"""Telling words of a question beyond which what is peculiar among them is not what it is about."""
_PRECISE = 3
_PRECISE_ALL = 8
_DEFINES = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|fn|func)\s+(\w+)")
_CODE = re.compile(r"[a-z_][\w.]*", re.IGNORECASE)
_LEAD = 0.6
"""How much of a sentence's worth goes to what follows it."""
_REPEATED = 0.75
"""What a word of the question is worth when it comes again, of what it was worth before."""
_NOVELTY = 0.35
_FILLING = 1e-6
_WORST = 0.03
"""Extracts that are worth less than this share of the best are left out."""


@dataclass(frozen=True, slots=True)
class Extract:
    """A stretch of one of the pieces that were read, verbatim. `score` compares it with others of the same
    reading."""

    piece: int
    start: int
    end: int
    text: str
    score: float


@dataclass(slots=True)
class _Unit:
    """A sentence: where it stands, its stems, and what it is worth."""

    piece: int
    start: int
    end: int
    text: str
    stems: frozenset[str]
    score: float = 0.0


def read(request: Request) -> str:
    """The extracts, best first, each on a line of its own with its white space folded; NOT_FOUND when nothing
    fits. A direct answer has them again as evidence."""
    found = extracts(request.task, [piece.text for piece in request.slices])
    if not found:
        return NOT_FOUND
    lines = [" ".join(extract.text.split()) for extract in found]
    if request.role == "direct":
        quotes = "\n".join(f'"{line}"' for line in lines)
        cited = "\n\n".join(f"{line} {marker(number)}" for number, line in enumerate(lines, 1))
        return f"{HEADING}\n{cited}\n\nEvidence:\n{quotes}"
    return "\n".join(lines)


def extracts(question: str, pieces: Sequence[str], *, budget: int = BUDGET) -> list[Extract]:
    """What fits the question best, best first, at most `budget` characters in all.

    A question for something peculiar (an identifier, a number, a quoted phrase) that stands in the pieces is
    answered by the few sentences that hold it; any other by stretches of up to 590 characters that hold its
    words and, among equals, say different things; a wish for a summary by those that hold most of what the
    pieces speak of. Earlier pieces count for a little more: give them best first.
    """
    tokens = Tokens()
    try:
        units = _units(pieces, tokens)
        if not units:
            return []
        named = [term.casefold() for term in peculiar(question)]
        if len(telling(question).split()) > _FEW_WORDS:
            named = []
        whole = is_overview(question)
        query = set() if whole else set(tokens.query(telling(question) or question).stems)
    finally:
        tokens.close()
    precise = _precise(question, named, units)
    if precise:
        return precise
    if whole:
        chosen = _covering(units, budget)
    else:
        _weigh(units, query)
        chosen = _stretches(units, query, budget, fill=wants_summary(question))
    return [
        Extract(first.piece, first.start, last.end, pieces[first.piece][first.start : last.end], score)
        for score, first, last in chosen
    ]


def _units(pieces: Sequence[str], tokens: Tokens) -> list[_Unit]:
    places = [(number, *place) for number, piece in enumerate(pieces) for place in sentences(piece)]
    stems = tokens.stems(pieces[number][start:end] for number, start, end in places)
    return [
        _Unit(number, start, end, pieces[number][start:end], frozenset(own))
        for (number, start, end), own in zip(places, stems, strict=True)
    ]


def _weigh(units: list[_Unit], query: set[str]) -> None:
    """Give each unit the rarity of the words it holds, and some of what its predecessor is worth."""
    frequency = Counter(stem for unit in units for stem in unit.stems & query)
    weights = {stem: math.log(1 + len(units) / count) for stem, count in frequency.items()}
    lead = 0.0
    piece = -1
    for unit in units:
        own = sum(weights[stem] for stem in unit.stems & query)
        if unit.piece != piece:
            piece, lead = unit.piece, 0.0
        unit.score = own + lead
        defines = _DEFINES.match(unit.text)
        strong = 2.0 if defines and own else 1.0
        lead = _LEAD * max(own * strong, lead if lead > 0.5 else 0.0) * 0.5


def _precise(question: str, named: list[str], units: list[_Unit]) -> list[Extract]:
    """The sentences that fit best where peculiar terms stand; nothing where none does. Of numbers, compounds
    and phrases the most that a sentence holds has to stand in it; a name out of code may stand above it."""
    folded = [unit.text.casefold() for unit in units]
    looked_for = {form for term in named for form in (term, *(parts(term) if _CODE.fullmatch(term) else ()))}
    if not any(term in text for term in looked_for for text in folded):
        return []
    wanted = [term.casefold() for term in terms(question)]
    frequency = {term: sum(term in text for text in folded) for term in wanted}
    weights = {
        term: math.log(1 + len(units) / count) * (1 + min(len(term), 20) / 10)
        for term, count in frequency.items()
        if count
    }
    exact = [term for term in named if not _CODE.fullmatch(term)]
    held = [sum(term in text for term in exact) for text in folded]
    most = max(held)
    scored = []
    lead: dict[str, float] = {}
    piece = -1
    for unit, text, count in zip(units, folded, held, strict=True):
        if unit.piece != piece:
            piece, lead = unit.piece, {}
        own = {term: weight for term, weight in weights.items() if term in text}
        score = sum(max(own.get(term, 0.0), lead.get(term, 0.0)) for term in own.keys() | lead.keys())
        if count == most and score:
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


def _stretches(
    units: list[_Unit], query: set[str], budget: int, *, fill: bool
) -> list[tuple[float, _Unit, _Unit]]:
    """(worth, first and last sentence) of stretches that hold words of the question. What has been taken
    makes the same words worth less, and words of its subject that were not yet held worth more. `fill` lets
    what holds only words of the subject have the room that is left."""
    frequency = Counter(stem for unit in units for stem in unit.stems & query)
    weights = {stem: math.log(1 + len(units) / count) for stem, count in frequency.items()}
    subject = _subject(units, query)
    last = units[-1].piece
    seen: Counter[str] = Counter()
    known: set[str] = set()

    def worth(stretch: _Stretch) -> float:
        relevance = sum(weights[stem] * _REPEATED ** seen[stem] for stem in stretch.stems & query)
        fresh = sum(subject.get(stem, 0.0) for stem in stretch.stems - known)
        prior = 1 - 0.5 * stretch.first.piece / (last + 1)
        if not relevance and fill:
            return _FILLING * fresh
        return relevance * (1 + prior) * (1 + _NOVELTY * fresh)

    def took(stretch: _Stretch) -> None:
        seen.update(stretch.stems & query)
        known.update(stretch.stems)

    return _greedy(units, worth, took, budget, 0.0 if fill else _WORST)


def _covering(units: list[_Unit], budget: int) -> list[tuple[float, _Unit, _Unit]]:
    """Stretches, in the text's order, that together hold most of what it keeps coming back to."""
    subject = _subject(units, set())
    known: set[str] = set()

    def worth(stretch: _Stretch) -> float:
        return sum(subject.get(stem, 0.0) for stem in stretch.stems - known)

    def took(stretch: _Stretch) -> None:
        known.update(stretch.stems)

    chosen = _greedy(units, worth, took, budget, 0.0)
    return sorted(chosen, key=lambda one: (one[1].piece, one[1].start))


@dataclass(frozen=True, slots=True)
class _Stretch:
    """Sentences `units[begin:end]` of one piece, and all their stems."""

    begin: int
    end: int
    first: _Unit
    last: _Unit
    stems: frozenset[str]


def _greedy(
    units: list[_Unit],
    worth: Callable[[_Stretch], float],
    took: Callable[[_Stretch], None],
    budget: int,
    worst: float,
) -> list[tuple[float, _Unit, _Unit]]:
    """The stretch that is worth most, again and again, until the budget is full, or one is worth less than
    `worst` of the first. None overlaps another."""
    open_ = _grown(units)
    chosen: list[tuple[float, _Unit, _Unit]] = []
    while open_:
        score, negative = max((worth(stretch), -number) for number, stretch in enumerate(open_))
        taken = open_[-negative]
        if score <= 0 or (chosen and score < worst * chosen[0][0]):
            break
        budget -= taken.last.end - taken.first.start
        took(taken)
        chosen.append((score, taken.first, taken.last))
        open_ = [
            stretch
            for stretch in open_
            if (stretch.end <= taken.begin or stretch.begin >= taken.end)
            and stretch.last.end - stretch.first.start <= budget
        ]
    return chosen


def _subject(units: list[_Unit], without: set[str]) -> dict[str, float]:
    """How much each word that comes more than once is what the units speak of; they add up to 1 for about
    thirty of the weightiest."""
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


def _grown(units: list[_Unit]) -> list[_Stretch]:
    """For each sentence the stretch that grows from it, on the side that is worth more, as far as it may."""
    grown: dict[tuple[int, int], _Stretch] = {}
    for at, unit in enumerate(units):
        first = last = at
        while True:
            before = units[first - 1] if first and units[first - 1].piece == unit.piece else None
            after = units[last + 1] if last + 1 < len(units) and units[last + 1].piece == unit.piece else None
            if before and units[last].end - before.start > LONGEST_EXTRACT:
                before = None
            if after and after.end - units[first].start > LONGEST_EXTRACT:
                after = None
            if after and (not before or after.score >= before.score):
                last += 1
            elif before:
                first -= 1
            else:
                break
        if (first, last) not in grown:
            stems = frozenset[str]().union(*(one.stems for one in units[first : last + 1]))
            grown[first, last] = _Stretch(first, last + 1, units[first], units[last], stems)
    return list(grown.values())
