"""A research report as Markdown: findings, evidence, conflicts, gaps, and numbered sources."""

from __future__ import annotations

import re
from collections.abc import Sequence

from rlm.escaping import markdown_line, markdown_phrase
from rlm.tasks.reports.conflicts import Conflict
from rlm.tasks.reports.evidence_table import EvidenceTable, Finding, Source
from rlm.tasks.reports.questions import Plan, Question

__all__ = ["findings_text", "marks", "report"]

_CELL = 120
_LEADING = re.compile(r"^(\s*)([-+=]|\d+[.)])")


def report(
    plan: Plan,
    summary: str,
    table: EvidenceTable,
    conflicts: Sequence[Conflict],
    gaps: Sequence[tuple[Question, str]],
) -> str:
    """Return the whole report. Text from documents is escaped, so that it cannot add headings or links."""
    parts = [f"# {_line(plan.task)}"]
    if summary:
        parts.append(markdown_phrase(summary))
    parts.append("## Findings")
    parts += _findings(plan.questions, table, {one.number: why for one, why in gaps})
    parts += ["## Evidence", _evidence(table)]
    parts += ["## Conflicts between sources", _conflicts(conflicts)]
    parts += ["## Not found", _gaps(gaps)]
    parts += ["## Sources", "\n".join(map(_source, table.sources)) or "None."]
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
        lines += [f"- {one.text} {marks(one.sources)}" for one in table.findings if one.question == leaf]
        lines += [f"- Not found: {why}" for question, why in gaps if question == leaf]
    return "\n".join(lines)


def _findings(questions: Sequence[Question], table: EvidenceTable, gaps: dict[str, str]) -> list[str]:
    parts = []
    for question in questions:
        level = "#" * min(6, 3 + question.number.count("."))
        parts.append(f"{level} {question.number} {_line(question.text)}")
        if question.parts:
            parts += _findings(question.parts, table, gaps)
            continue
        own = [one for one in table.findings if one.question.number == question.number]
        verified = [one for one in own if one.sources]
        lines = [_finding(one) for one in verified if one.same_as is None]
        lines += _repeated_findings(verified)
        if len(own) > len(verified):
            lines += [f"- *unverified:* {_line(one.text)}" for one in own if not one.sources]
        parts.append("\n".join(lines) or f"*Not found: {_line(gaps.get(question.number, 'no answer'))}*")
    return parts


def _repeated_findings(findings: Sequence[Finding]) -> list[str]:
    """Return one line for each earlier question with the same findings."""
    earlier: dict[str, list[int]] = {}
    for one in findings:
        if one.same_as is not None:
            numbers = earlier.setdefault(one.same_as, [])
            numbers += [number for number in one.sources if number not in numbers]
    return [f"- The same as in {number} {marks(sources)}" for number, sources in earlier.items()]


def _finding(one: Finding) -> str:
    return f"- {_line(one.text)} {marks(one.sources)}"


def _evidence(table: EvidenceTable) -> str:
    if not table.sources:
        return "None."
    used: dict[int, list[str]] = {}
    for one in table.findings:
        for number in one.sources:
            questions = used.setdefault(number, [])
            if one.question.number not in questions:
                questions.append(one.question.number)
    rows = [
        f"| [{source.number}] | {', '.join(used.get(source.number, []))} "
        f"| {_line(_cut(source.citation.quote))} | {_line(source.citation.place)} | {1 + len(source.also)} |"
        for source in table.sources
    ]
    head = "| source | questions | passage | where | places |\n| --- | --- | --- | --- | --- |"
    return "\n".join([head, *rows])


def _conflicts(conflicts: Sequence[Conflict]) -> str:
    if not conflicts:
        return "None found among the passages."
    return "\n".join(f"- {marks(one.sources)} {_line(one.about)}" for one in conflicts)


def _gaps(gaps: Sequence[tuple[Question, str]]) -> str:
    if not gaps:
        return "Every question has an answer with a verified source."
    return "\n".join(f"- {one.number} {_line(one.text)} ({_line(why)})" for one, why in gaps)


def _source(source: Source) -> str:
    also = "; the same in " + ", ".join(_line(one.place) for one in source.also) if source.also else ""
    return f"- [{source.number}] {_line(source.citation.place)}{also}: “{_line(source.citation.shown)}”"


def _cut(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _CELL else text[: _CELL - 1] + "…"


def _line(text: str) -> str:
    """Return the text on one line, with Markdown escaped."""
    return _LEADING.sub(r"\1\\\2", markdown_line(text))
