"""The evidence of a research: claims with numbered sources, their check, and contradictions.

A passage has one number, however often it is cited.
"""

from __future__ import annotations

import json
import re
from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import Claim, claims_of
from rlm.answers.support.passages import passages_of
from rlm.answers.support.passages import statement_of as whole_statement
from rlm.citation_markers import marks_of
from rlm.escaping import json_text
from rlm.models.base import is_extractive
from rlm.models.offline.extractive import is_extracts
from rlm.results import NOT_SUPPORTED, Citation, RunResult, Support
from rlm.sandbox.text.body import Body
from rlm.tasks.jobs.job import Job
from rlm.tasks.reports.plan import Question

__all__ = [
    "Conflict",
    "EvidenceTable",
    "Finding",
    "Source",
    "check_findings",
    "check_summary",
    "is_sourced",
    "join_support",
    "passages",
    "read_conflicts",
    "statement_of",
]

_OVERLAP = 0.5


@dataclass(frozen=True, slots=True)
class Source:
    """A verified passage. `also` are other places with the same words."""

    number: int
    citation: Citation
    also: tuple[Citation, ...] = ()


@dataclass(frozen=True, slots=True)
class Finding:
    """A claim of the answer to a question, with the numbers of its verified sources; it may have none.
    `supported` says whether they support it; None if that was not checked. `end` is its end in the text of
    the answer, None for an extract."""

    question: Question
    text: str
    sources: tuple[int, ...]
    supported: bool | None = None
    end: int | None = None


@dataclass(slots=True)
class EvidenceTable:
    """Collects answers, their claims and sources, question by question. `answers` are the texts of the models
    as they wrote them, with the numbers of `sources` in their marks; `[?]` marks a citation that is not in
    the input. `unverified` counts those."""

    findings: list[Finding] = field(default_factory=list)
    sources: list[Source] = field(default_factory=list)
    answers: dict[str, str] = field(default_factory=dict)
    unverified: int = 0

    def add(self, question: Question, result: RunResult) -> bool:
        """Add the claims of an answer. Return False if none of them has a verified source."""
        if is_extracts(result):
            for place, number in self._add_sources(result).items():
                text = " ".join(result.citations[place - 1].quote.split())
                self.findings.append(Finding(question, text, (number,)))
            return bool(self.of_question(question))
        numbers = self._add_sources(result)
        text = _with_numbers(result, numbers)
        claims = claims_of(text, sorted(set(numbers.values())))
        if numbers and not marks_of(text, numbers.values()):
            text = _with_marks(text, list(dict.fromkeys(numbers.values())))
        self.answers[question.number] = text
        self.findings += [Finding(question, one.text, one.sources, end=one.end) for one in claims]
        return any(one.sources for one in claims)

    def of_question(self, question: Question) -> list[Finding]:
        """Return the findings of a question, in order."""
        return [one for one in self.findings if one.question.number == question.number]

    def text_of(self, question: Question, remark: str) -> str:
        """Return the answer to a question as its model wrote it, with a remark behind each claim that its
        sources do not support. It is "" for extracts and without an answer."""
        text = self.answers.get(question.number, "")
        for one in reversed(self.of_question(question)):
            if text and one.supported is False and one.end is not None:
                text = f"{text[: one.end]} {remark}{text[one.end :]}"
        return text

    def _add_sources(self, result: RunResult) -> dict[int, int]:
        """Add an answer's verified citations. Return the source's number by the citation's place, from 1."""
        numbers = {}
        for place, citation in enumerate(result.citations, 1):
            if not citation.verified or citation.start is None or citation.end is None:
                self.unverified += 1
            else:
                numbers[place] = self._add_source(citation)
        return numbers

    def _add_source(self, citation: Citation) -> int:
        """Return the number of the source that has this passage. Adds a new source if there is none."""
        for at, source in enumerate(self.sources):
            for cited in (source.citation, *source.also):
                if _overlap(cited, citation):
                    return source.number
            if _is_same_text(source.citation.quote, citation.quote):
                self.sources[at] = replace(source, also=(*source.also, citation))
                return source.number
        self.sources.append(Source(len(self.sources) + 1, citation))
        return len(self.sources)


def _with_numbers(result: RunResult, numbers: Mapping[int, int]) -> str:
    """Return the text of an answer with the numbers of the sources in its marks."""
    if not isinstance(result.answer, str):
        return f"```json\n{json_text(result.answer, indent=2)}\n```"
    text, pieces, at = result.answer.strip(), [], 0
    for mark in marks_of(text, range(1, len(result.citations) + 1)):
        sources = dict.fromkeys(str(numbers.get(number, "?")) for number in mark.numbers)
        pieces += [text[at : mark.start], *(f"[{source}]" for source in sources)]
        at = mark.end
    return "".join([*pieces, text[at:]])


def _with_marks(text: str, sources: Sequence[int]) -> str:
    """Return a text that has no marks with those of all its sources at its end."""
    border = "\n\n" if text.endswith(("```", "~~~")) else " "
    return text + border + "".join(f"[{number}]" for number in sources)


def _overlap(one: Citation, other: Citation) -> bool:
    """Return whether two passages share at least half of the shorter one."""
    if None in (one.start, one.end, other.start, other.end):
        return False
    left, right = max(one.start or 0, other.start or 0), min(one.end or 0, other.end or 0)
    shorter = min((one.end or 0) - (one.start or 0), (other.end or 0) - (other.start or 0))
    return shorter > 0 and right - left >= _OVERLAP * shorter


def _is_same_text(one: str, other: str) -> bool:
    """Return whether two passages are equal but for blanks. One other word may turn the meaning around."""
    words = one.split()
    return len(words) > 2 and words == other.split()


def is_sourced(result: RunResult) -> bool:
    """Return whether a result has a verified citation with a place."""
    return any(one.verified and one.start is not None for one in result.citations)


def statement_of(body: Body, citation: Citation) -> str:
    """Return the whole sentences or the record that a passage is part of, on one line."""
    if citation.start is None or citation.end is None:
        return " ".join(citation.quote.split())
    return whole_statement(body, citation.start, citation.end)


def passages(sources: Sequence[Source], statements: Mapping[int, str]) -> str:
    """Return the sources as a numbered list for a model, in whole sentences."""
    return "\n".join(
        f"[{one.number}] {' '.join((one.citation.document or 'input').split())}: {statements[one.number]}"
        for one in sources
    )


async def check_findings(job: Job, table: EvidenceTable, in_rounds: Collection[str] = ()) -> Support:
    """Check the findings that have sources, and write the verdicts into `table`. With a model one call judges
    those that are not word for word in their sources.

    No passage states what code counted over all of them: of answers found `in_rounds` (the numbers of these
    questions) only what contradicts the passages is marked.
    """
    places = [at for at, one in enumerate(table.findings) if one.sources]
    claims = [
        Claim(one.text, one.sources, is_computed=one.question.number in in_rounds)
        for one in (table.findings[at] for at in places)
    ]
    support = await _check(job, claims, table)
    for at, judged in zip(places, support.claims, strict=True):
        supported = None if judged.status == "unchecked" else judged.status == "supported"
        table.findings[at] = replace(table.findings[at], supported=supported)
    return support


async def check_summary(job: Job, summary: str, table: EvidenceTable) -> tuple[str, Support]:
    """Return the summary with a remark behind each sentence that its sources do not support."""
    support = await _check(job, claims_of(summary, range(1, len(table.sources) + 1)), table)
    for one in sorted(support.claims, key=lambda one: one.end or 0, reverse=True):
        if one.status == "unsupported" and one.end is not None:
            summary = f"{summary[: one.end]} {NOT_SUPPORTED}{summary[one.end :]}"
    return summary, support


async def _check(job: Job, claims: Sequence[Claim], table: EvidenceTable) -> Support:
    passages = passages_of([one.citation for one in table.sources], job.body)
    model = job.config.summary_model
    by_words = is_extractive(model) or job.config.settings.check_support is False
    support = await check_support(claims, passages, None if by_words else job.support_model(model))
    for note in [one for one in support.notes if one not in job.warnings]:
        job.warn(note)
    return support


def join_support(findings: Support, summary: Support | None) -> Support:
    """Return the support of all claims of a report. Their places in it are left out."""
    claims = [*findings.claims, *(() if summary is None else summary.claims)]
    return Support(
        tuple(replace(one, start=None, end=None) for one in claims),
        findings.model or (None if summary is None else summary.model),
    )


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
