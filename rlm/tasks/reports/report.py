"""A research report as Markdown: the answer, conflicts, gaps, and numbered sources."""

from __future__ import annotations

import re
from collections.abc import Collection, Sequence

from rlm.citation_markers import marks_of
from rlm.escaping import markdown_answer, markdown_line
from rlm.results import NOT_SUPPORTED
from rlm.tasks.reports.evidence import Conflict, EvidenceTable, Source
from rlm.tasks.reports.plan import Plan, Question

__all__ = ["findings_text", "marks", "report"]

_LEADING = re.compile(r"^(\s*)([-+=]|\d+[.)])")


def report(
    plan: Plan,
    summary: str,
    table: EvidenceTable,
    conflicts: Sequence[Conflict],
    gaps: Sequence[tuple[Question, str]],
) -> str:
    """Return the report: the answer first, then what it rests on. Sections without content are left out.

    What models wrote is shown as they wrote it, so that only links, images and HTML in it are not live. Text
    from documents is escaped. A plan of one question has no findings besides its answer. An answer
    is left out if it has sources and the summary cites them all.
    """
    parts = [markdown_answer(summary)] if summary else []
    reasons = {one.number: why for one, why in gaps}
    if len(plan.leaves) == 1:
        if not summary:
            (only,) = plan.leaves
            why = _line(reasons.get(only.number, "no answer"))
            parts.append(_answer(only, table) or f"*Not found: {why}*")
    elif not summary:
        parts += _findings(plan.questions, table, 2)
    else:
        known = range(1, len(table.sources) + 1)
        cited = {number for mark in marks_of(summary, known) for number in mark.numbers}
        told = {
            leaf.number
            for leaf in plan.leaves
            if (own := {source for one in table.of_question(leaf) for source in one.sources}) and own <= cited
        }
        findings = _findings(plan.questions, table, 3, without=told)
        if findings:
            parts += ["## Findings", *findings]
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
        text = table.text_of(leaf, NOT_SUPPORTED)
        lines += [text] if text else [f"- {one.text} {marks(one.sources)}" for one in table.of_question(leaf)]
        lines += [f"- Not found: {why}" for question, why in gaps if question == leaf]
    return "\n".join(lines)


def _findings(
    questions: Sequence[Question], table: EvidenceTable, level: int, *, without: Collection[str] = ()
) -> list[str]:
    """Return the questions as headings with their answers. `without` are those to be left out."""
    parts: list[str] = []
    for question in questions:
        if question.parts:
            below = _findings(question.parts, table, level + 1, without=without)
        elif question.number in without:
            below = []
        else:
            below = [_answer(question, table) or "*Not found.*"]
        if below:
            parts += [f"{'#' * min(6, level)} {question.number} {_line(question.text)}", *below]
    return parts


def _answer(question: Question, table: EvidenceTable) -> str:
    """Return the answer to a question as it was written, or its extracts, one a line."""
    text = table.text_of(question, NOT_SUPPORTED)
    if text:
        is_sourced = any(one.sources for one in table.of_question(question))
        return markdown_answer(text if is_sourced else f"*Unverified:* {text}")
    return "\n".join(f"- {_line(one.text)} {marks(one.sources)}" for one in table.of_question(question))


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
