"""What research found: claims with numbered sources, the same passage counted once wherever it was cited."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, field, replace

from rlm.citation_markers import marks_in
from rlm.models.offline.extractive.answer_texts import is_extracts
from rlm.models.offline.extractive.sentences import sentences
from rlm.models.offline.extractive.words import telling
from rlm.results import Citation, RunResult
from rlm.retrieval.words import Tokens
from rlm.tasks.question import Answered
from rlm.tasks.reports.questions import Question
from rlm.tasks.summaries.summary_lines import words_of

__all__ = ["EvidenceTable", "Finding", "Source", "passages", "without_headings"]

_ALIKE = 0.9
_OVERLAP = 0.5
_CLAIM = re.compile(r"\n+|(?<=[.!?…])\s+(?!\[)|(?<=[.!?…]\])\s+|(?<=\])\s+(?=[A-Z])")
_STOPS = ".,;:!?…"
_HASHES = re.compile(r"(?<!\S)#{1,6}\s+")
_MAX_EXTRACTS = 8
"""Of a question that no model answered: passages in the report, the best ones."""
_LONG_EXTRACT = 300
_SENTENCES = 3


@dataclass(frozen=True, slots=True)
class Source:
    """A verified passage; `also` are other places that say the same in the same words."""

    number: int
    citation: Citation
    also: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim that answers a question, with the numbers of its sources (none: nothing verified stands behind
    it). `same_as` is the question under which the same was found before."""

    question: Question
    text: str
    sources: tuple[int, ...]
    same_as: str | None = None


@dataclass(slots=True)
class EvidenceTable:
    """Findings and sources as they come in, question by question."""

    findings: list[Finding] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    unverified: int = 0

    def add(self, question: Question, answer: Answered) -> bool:
        """Take an answer's claims; False when nothing verified stands behind any of them."""
        result = answer.result
        if is_extracts(question.text, result):
            result = _best_extracts(question.text, result)
            claims = _extracted(question.text, result, self._numbers(result))
        else:
            claims = _claims(result, self._numbers(result))
        for text, sources in claims:
            earlier = self._earlier(text)
            self.findings.append(
                Finding(question, text, sources, None if earlier is None else earlier.question.number)
            )
        return any(sources for _, sources in claims)

    def _numbers(self, result: RunResult) -> dict[int, int]:
        """The source that each of an answer's citations (by its place, from 1) became."""
        found = {}
        for place, citation in enumerate(result.citations, 1):
            if not citation.verified or citation.start is None or citation.end is None:
                self.unverified += 1
            else:
                found[place] = self._source(citation)
        return found

    def _source(self, citation: Citation) -> int:
        for at, source in enumerate(self.sources):
            for known in (source.citation, *source.also):
                if _overlap(known, citation):
                    return source.number
            if _same_words(source.citation.quote, citation.quote):
                self.sources[at] = replace(source, also=(*source.also, citation))
                return source.number
        self.sources.append(Source(len(self.sources) + 1, citation))
        return len(self.sources)

    def _earlier(self, text: str) -> Finding | None:
        return next((one for one in self.findings if _same_words(one.text, text)), None)


def _best_extracts(question: str, result: RunResult) -> RunResult:
    """The extracts, best first, without those that hold less than half of what the best one holds."""
    told = [len(words) for words in _told(question, [one.quote for one in result.citations])]
    most = max(told, default=0)
    kept = [one for one, count in zip(result.citations, told, strict=True) if count >= most / 2]
    return replace(result, citations=tuple(kept[:_MAX_EXTRACTS]))


def _extracted(
    question: str, result: RunResult, numbers: Mapping[int, int]
) -> list[tuple[str, tuple[int, ...]]]:
    """What extracts say to the question: of each, where it is long, the sentences that hold most of it."""
    claims: list[tuple[str, tuple[int, ...]]] = []
    for place, citation in enumerate(result.citations, 1):
        if place not in numbers:
            continue
        quote = without_headings(citation)
        pieces = [" ".join(quote[start:end].split()) for start, end in sentences(quote)]
        if len(quote) > _LONG_EXTRACT and len(pieces) > _SENTENCES:
            told = [len(words) for words in _told(question, pieces)]
            best = sorted(range(len(pieces)), key=lambda at: (-told[at], -min(len(pieces[at]), 200), at))
            chosen = sorted(at for at in best[:_SENTENCES] if told[at] or at == best[0])
            pieces = [("… " if at and at - 1 not in chosen else "") + pieces[at] for at in chosen]
        claims.append((" ".join(pieces), (numbers[place],)))
    return claims


def _told(question: str, texts: Sequence[str]) -> list[set[str]]:
    """The telling words of the question that each text holds."""
    with closing(Tokens()) as tokens:
        wanted = set(tokens.query(telling(question) or question).stems)
        return [wanted & set(stems) for stems in tokens.stems(texts)]


def _claims(result: RunResult, numbers: dict[int, int]) -> list[tuple[str, tuple[int, ...]]]:
    """The sentences of an answer with their sources. Where no mark says which, the passages that hold a
    sentence; where there is a sentence that none holds, all is one claim with all of them."""
    text = result.text
    claims: list[tuple[str, tuple[int, ...]]] = []
    marked = False
    for piece in _CLAIM.split(text):
        marks = list(marks_in(f" {piece}"))
        words = _without_marks(piece)
        if not words:
            continue
        cited = [numbers[n] for mark in marks for n in mark.numbers if n in numbers]
        marked = marked or bool(marks)
        claims.append((words, tuple(dict.fromkeys(cited))))
    quotes = {
        numbers[place]: words_of(one.quote)
        for place, one in enumerate(result.citations, 1)
        if place in numbers
    }
    if marked or not claims:
        # A mark stands behind the last sentence of what it is for: the others may stand in a passage, too.
        return [(words, cited or _holding(words, quotes)) for words, cited in claims]
    held = [(words, _holding(words, quotes)) for words, _ in claims]
    if all(sources for _, sources in held):
        return held
    return [(" ".join(words for words, _ in claims), tuple(quotes))]


def _holding(text: str, quotes: Mapping[int, set[str]]) -> tuple[int, ...]:
    """The sources whose passages hold a sentence; none for one of hardly any words."""
    return tuple(n for n, quote in quotes.items() if _mostly(text, quote)) if words_of(text) else ()


def _mostly(text: str, quote: set[str]) -> bool:
    words = words_of(text)
    return len(words & quote) >= _ALIKE * len(words)


def _without_marks(text: str) -> str:
    at, kept = 0, ""
    padded = f" {text}"
    for mark in marks_in(padded):
        kept += padded[at : mark.start]
        at = mark.end
        if padded[at : at + 1] in _STOPS:
            kept = kept.rstrip()
    return " ".join((kept + padded[at:]).split())


def _overlap(one: Citation, other: Citation) -> bool:
    """Whether two passages of the body are mostly the same stretch."""
    if None in (one.start, one.end, other.start, other.end):
        return False
    left, right = max(one.start or 0, other.start or 0), min(one.end or 0, other.end or 0)
    shorter = min((one.end or 0) - (one.start or 0), (other.end or 0) - (other.start or 0))
    return shorter > 0 and right - left >= _OVERLAP * shorter


def _same_words(one: str, other: str) -> bool:
    left, right = words_of(one), words_of(other)
    return len(left) > 2 and len(left & right) >= _ALIKE * len(left | right)


def without_headings(citation: Citation) -> str:
    """The passage without the headings it begins with, which stand beside it as its place, and without the
    marks of those within."""
    text = citation.quote
    for heading in citation.heading_path:
        begun = re.match(rf"\s*#{{1,6}}\s+{re.escape(heading)}\s+(?=\S)", text)
        text = text[begun.end() :] if begun else text
    return _HASHES.sub("", text)


def passages(sources: Sequence[Source]) -> str:
    """The sources as a numbered list for a model."""
    return "\n".join(f"[{one.number}] {one.citation.document}: {one.citation.shown}" for one in sources)
