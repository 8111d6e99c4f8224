"""Check whether the sources of a research support its findings and its summary."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace

from rlm.answers.support.check import check_support
from rlm.answers.support.claims import Claim, claims_of
from rlm.answers.support.passages import passages_of
from rlm.models.base import is_extractive
from rlm.results import NOT_SUPPORTED, Support
from rlm.tasks.jobs.job import Job
from rlm.tasks.reports.evidence_table import EvidenceTable

__all__ = ["check_findings", "check_summary", "join_support"]


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
