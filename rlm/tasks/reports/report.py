"""A research report as Markdown: the answer, conflicts, gaps, and numbered sources."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm.citation_markers import marks_in
from rlm.escaping import markdown_line, markdown_phrase
from rlm.results import NOT_SUPPORTED
from rlm.tasks.reports.conflicts import Conflict
from rlm.tasks.reports.evidence_table import EvidenceTable, Finding, Source
from rlm.tasks.reports.questions import Plan, Question
from rlm.tasks.summaries.summary_lines import words_of

__all__ = ["findings_text", "marks", "report"]

_TOLD = 0.7
"""The share of a finding's words that the summary has, if it tells it."""
_LEADING = re.compile(r"^(\s*)([-+=]|\d+[.)])")


def report(
    plan: Plan,
    summary: str,
    table: EvidenceTable,
    conflicts: Sequence[Conflict],
    gaps: Sequence[tuple[Question, str]],
) -> str:
    """Return the report: the answer first, then what it rests on. Sections without content are left out.

    A plan of one question has no findings besides its answer, and what the summary tells with the same
    sources is not told again. Text from documents is escaped, so that it
    cannot add headings or links.
    """
    parts = [markdown_phrase(one) for one in summary.split("\n\n") if one.strip()]
    reasons = {one.number: why for one, why in gaps}
    if len(plan.leaves) == 1:
        if not summary:
            (only,) = plan.leaves
            why = _line(reasons.get(only.number, "no answer"))
            parts.append(_answer(only, table.findings) or f"*Not found: {why}*")
    else:
        own = [one for one in table.findings if not _is_told(one, summary)]
        if not summary:
            parts += _findings(plan.questions, own, 2)
        elif any(one.sources for one in own):
            parts += ["## Findings", *_findings(plan.questions, own, 3, only_found=True)]
    if conflicts:
        parts += ["## Conflicts between sources", _conflicts(conflicts, table)]
    if gaps and (len(plan.leaves) > 1 or summary):
        parts += ["## Not found", _gaps(gaps)]
    if table.sources:
        parts += ["## Sources", "\n".join(map(_source, table.sources))]
    return "\n\n".join(parts) + "\n"


def marks(numbers: Sequence[int]) -> str:
    """Return the marks of these sources: `[1][4]`."""
    return "".join(f"[{number}]" for number in numbers)


def findings_text(plan: Plan, table: EvidenceTable, gaps: Sequence[tuple[Question, str]]) -> str:
    """Return questions and findings for the model that writes the summary.

    The journal finds the model's reply by a hash of its prompt, so a change here makes a resumed research
    pay for its summary again.
    """
    lines = []
    for leaf in plan.leaves:
        lines.append(f"{leaf.number} {leaf.text}")
        lines += [
            f"- {one.text} {marks(one.sources)}"
            for one in table.findings
            if one.question == leaf and one.supported is not False
        ]
        lines += [f"- Not found: {why}" for question, why in gaps if question == leaf]
    return "\n".join(lines)


def _is_told(finding: Finding, summary: str) -> bool:
    """Return whether a summary tells a finding already: with its sources, and most of its words."""
    if not summary or not finding.sources or finding.supported is False:
        return False
    cited = {number for mark in marks_in(summary) for number in mark.numbers}
    words = words_of(finding.text)
    return cited.issuperset(finding.sources) and len(words & words_of(summary)) >= _TOLD * len(words)


def _findings(
    questions: Sequence[Question], findings: Sequence[Finding], level: int, *, only_found: bool = False
) -> list[str]:
    """Return the questions as headings with their claims. `only_found` leaves out those without a claim."""
    parts: list[str] = []
    for question in questions:
        if question.parts:
            below = _findings(question.parts, findings, level + 1, only_found=only_found)
        else:
            answer = _answer(question, findings) or ("" if only_found else "*Not found.*")
            below = [answer] if answer else []
        if below:
            parts += [f"{'#' * min(6, level)} {question.number} {_line(question.text)}", *below]
    return parts


def _answer(question: Question, findings: Sequence[Finding]) -> str:
    """Return the claims of a question, one a line."""
    own = [one for one in findings if one.question.number == question.number]
    verified = [one for one in own if one.sources]
    lines = [_finding(one) for one in verified if one.same_as is None]
    lines += _repeated_findings(verified)
    lines += [f"- *unverified:* {_line(one.text)}" for one in own if not one.sources]
    return "\n".join(lines)


def _repeated_findings(findings: Sequence[Finding]) -> list[str]:
    """Return one line for each earlier question with the same findings."""
    earlier: dict[str, list[int]] = {}
    for one in findings:
        if one.same_as is not None:
            numbers = earlier.setdefault(one.same_as, [])
            numbers += [number for number in one.sources if number not in numbers]
    return [f"- The same as in {number} {marks(sources)}" for number, sources in earlier.items()]


def _finding(one: Finding) -> str:
    remark = f" {NOT_SUPPORTED}" if one.supported is False else ""
    return f"- {_line(one.text)} {marks(one.sources)}{remark}"


def _conflicts(conflicts: Sequence[Conflict], table: EvidenceTable) -> str:
    """Return each conflict with the place and the whole sentences of each side."""
    places = {source.number: source.citation.place for source in table.sources}
    lines = []
    for one in conflicts:
        lines.append(f"- {_line(one.about)}")
        for number, statement in zip(one.sources, one.statements, strict=False):
            lines.append(f"  - [{number}] {_line(places.get(number, ''))}: “{_line(statement)}”")
    return "\n".join(lines)


def _gaps(gaps: Sequence[tuple[Question, str]]) -> str:
    return "\n".join(f"- {one.number} {_line(one.text)} ({_line(why)})" for one, why in gaps)


def _source(source: Source) -> str:
    also = "; the same in " + ", ".join(_line(one.place) for one in source.also) if source.also else ""
    return f"- [{source.number}] {_line(source.citation.place)}{also}: “{_line(source.citation.shown)}”"


def _line(text: str) -> str:
    """Return the text on one line, with Markdown escaped."""
    return _LEADING.sub(r"\1\\\2", markdown_line(text))
