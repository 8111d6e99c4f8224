"""The best verbatim sentences of a slice: what a child answers when there is no model to read it."""

from __future__ import annotations

import math
import re
from dataclasses import dataclass

from prompts import NOT_FOUND
from rlm.models.base import Request
from rlm.models.extractive.words import terms

__all__ = ["Sentence", "best_sentences", "read"]

MAX_SENTENCES = 3
_BREAK = re.compile(r"(?<=[.!?])[\"')\]]*\s+|(?<=[。！？])|\n+")
_DEFINES = re.compile(r"^\s*(?:async\s+)?(?:def|class|function|fn|func)\s+(\w+)")
_LEAD = 0.6
"""How much of a line's worth goes to what follows it: a heading speaks for its first lines."""


@dataclass(frozen=True, slots=True)
class Sentence:
    """A stretch of a text, verbatim, and how well it fits the question."""

    start: int
    text: str
    score: float


def read(request: Request) -> str:
    """One line a sentence, the best of all slices of a request first; NOT_FOUND when none fits."""
    found = [
        sentence
        for piece in request.slices
        for sentence in best_sentences(request.task, piece.text, limit=MAX_SENTENCES)
    ]
    best = sorted(found, key=lambda sentence: -sentence.score)[:MAX_SENTENCES]
    if not best:
        return NOT_FOUND
    if request.role == "direct":
        lines = [" ".join(sentence.text.split()) for sentence in best]
        quotes = "\n".join(f'"{line}"' for line in lines)
        return "Extracts (no language model was asked):\n" + "\n".join(lines) + f"\n\nEvidence:\n{quotes}"
    return "\n".join(sentence.text for sentence in best)


def best_sentences(question: str, text: str, *, limit: int) -> list[Sentence]:
    """Up to `limit` sentences of `text`, best first, none much worse than the best."""
    wanted = [term.casefold() for term in terms(question)]
    units = _units(text)
    if not wanted or not units:
        return []
    folded = [unit.casefold() for _, unit in units]
    weights = {}
    for term in wanted:
        frequency = sum(term in unit for unit in folded)
        if frequency:
            weights[term] = math.log(1 + len(units) / frequency) * (1 + min(len(term), 20) / 10)
    sentences = []
    lead: dict[str, float] = {}
    for (start, unit), low in zip(units, folded, strict=True):
        own = {term: weight for term, weight in weights.items() if term in low}
        score = sum(own.values()) + sum(weight for term, weight in lead.items() if term not in own)
        if own or lead:
            sentences.append(Sentence(start, unit, score))
        defines = _DEFINES.match(unit)
        if defines and defines[1].casefold() in own:
            lead = {term: weight * 1.2 for term, weight in own.items()}
        else:
            carried = {term: weight * _LEAD * _LEAD for term, weight in lead.items() if weight > 0.3}
            lead = {**carried, **{term: weight * _LEAD for term, weight in own.items()}}
    best = sorted(sentences, key=lambda sentence: (-sentence.score, sentence.start))[:limit]
    return [sentence for sentence in best if sentence.score >= 0.6 * best[0].score]


def _units(text: str) -> list[tuple[int, str]]:
    """Sentences and lines with where they start, blank ones left out."""
    units = []
    position = 0
    for edge in [*_BREAK.finditer(text), None]:
        end = edge.start() if edge else len(text)
        piece = text[position:end]
        stripped = piece.strip()
        if any(character.isalnum() for character in stripped):
            units.append((position + len(piece) - len(piece.lstrip()), stripped))
        position = edge.end() if edge else end
    return units
