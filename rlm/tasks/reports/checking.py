"""Check whether the sources of a research support its findings and its summary; correct them once."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace

from rlm.answers.support.answer_support import asks_for_computing
from rlm.answers.support.check import check_support
from rlm.answers.support.claims import Claim, claims_of
from rlm.answers.support.mending import mend_claims, with_texts
from rlm.answers.support.passages import passages_of
from rlm.models.base import is_extractive
from rlm.results import NOT_SUPPORTED, Support
from rlm.tasks.jobs.job import Job
from rlm.tasks.reports.evidence_table import EvidenceTable

__all__ = ["check_findings", "check_summary", "join_support"]

_MOST_CANDIDATES = 12


async def check_findings(job: Job, table: EvidenceTable, in_rounds: Collection[str] = ()) -> Support:
    """Check the findings that have sources, and write corrections and verdicts into `table`.

    With a model one call judges those that are not word for word in their sources, and one corrects those
    that are not supported. Answers to questions for a number or an extreme that were found `in_rounds` (the
    numbers of these questions) are compared by words alone.
    """
    places = [at for at, one in enumerate(table.findings) if one.sources]
    of_question: dict[str, dict[int, None]] = {}
    for at in places:
        own = of_question.setdefault(table.findings[at].question.number, {})
        own.update(dict.fromkeys(table.findings[at].sources))
    claims = [
        Claim(one.text, one.sources, candidates=_others(of_question[one.question.number], one.sources))
        for one in (table.findings[at] for at in places)
    ]
    # No passage states what code counted over all of them: a model that sees passages would cut it.
    questions = [table.findings[at].question for at in places]
    is_counted = [one.number in in_rounds and asks_for_computing(one.text) for one in questions]
    counted = [at for at, counts in enumerate(is_counted) if counts]
    stated = [at for at, counts in enumerate(is_counted) if not counts]
    mended, support = await _check(job, [claims[at] for at in stated], table)
    passages = passages_of([one.citation for one in table.sources], job.body)
    by_words = await check_support([claims[at] for at in counted], passages, is_computed=True)
    verdicts = dict(zip(stated, zip(mended, support.claims, strict=True), strict=True))
    verdicts |= {at: (claims[at], one) for at, one in zip(counted, by_words.claims, strict=True)}
    in_order = [verdicts[at] for at in range(len(claims))]
    support = replace(support, claims=tuple(judged for _, judged in in_order))
    for at, (claim, judged) in zip(places, in_order, strict=True):
        supported = None if judged.status == "unchecked" else judged.status == "supported"
        table.findings[at] = replace(
            table.findings[at], text=claim.text, sources=claim.sources, supported=supported
        )
    return support


async def check_summary(job: Job, summary: str, table: EvidenceTable) -> tuple[str, Support]:
    """Return the summary with its corrections, and with a remark behind each sentence that its sources do not
    support."""
    claims = claims_of(summary, len(table.sources))
    cited = dict.fromkeys(source for one in claims for source in one.sources)
    claims = tuple(replace(one, candidates=_others(cited, one.sources)) for one in claims)
    mended, support = await _check(job, claims, table)
    text, support = with_texts(summary, claims, mended, support)
    for one in sorted(support.claims, key=lambda one: one.end or 0, reverse=True):
        if one.status == "unsupported" and one.end is not None:
            text = f"{text[: one.end]} {NOT_SUPPORTED}{text[one.end :]}"
    return text, support


def _others(sources: Iterable[int], own: Sequence[int]) -> tuple[int, ...]:
    """Return the sources that a claim does not cite and that may prove it, too."""
    return tuple(one for one in sources if one not in own)[:_MOST_CANDIDATES]


async def _check(job: Job, claims: Sequence[Claim], table: EvidenceTable) -> tuple[Sequence[Claim], Support]:
    passages = passages_of([one.citation for one in table.sources], job.body)
    model = job.config.summary_model
    by_words = is_extractive(model) or job.config.settings.check_support is False
    asked = None if by_words else job.support_model(model)
    support = await check_support(claims, passages, asked)
    if asked is not None and support.unsupported:
        claims, support = await mend_claims(claims, support, passages, asked)
    for note in [one for one in support.notes if one not in job.warnings]:
        job.warn(note)
    return claims, support


def join_support(findings: Support, summary: Support | None) -> Support:
    """Return the support of all claims of a report. Their places in it are left out."""
    claims = [*findings.claims, *(() if summary is None else summary.claims)]
    return Support(
        tuple(replace(one, start=None, end=None) for one in claims),
        findings.model or (None if summary is None else summary.model),
    )
