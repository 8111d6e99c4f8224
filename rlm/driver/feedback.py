"""Renders the message that shows the root the result of its block. Every part has a size limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from rlm.children.tally import ChildTally
from rlm.driver.rerun import DIED
from rlm.prompts.recipes.corrections import advice_on
from rlm.prompts.templates import table
from rlm.results import Coverage
from rlm.sandbox.types import CellResult

__all__ = ["Feedback", "bare_output", "coverage_line", "head_and_tail", "render"]

MAX_VARIABLES = 40
ERROR_LIMIT = 3_000
RESULT_LIMIT = 2_000
STDERR_LIMIT = 1_000
GAPS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Feedback:
    """The parts of the message. `low`: warnings about limits that are almost used up. `notes` come last."""

    round: int
    rounds: int
    cell: CellResult
    children: ChildTally
    coverage: Coverage
    low: Sequence[str] = ()
    notes: Sequence[str] = ()
    output_limit: int = 8_000


def render(feedback: Feedback) -> str:
    """Return the user message that follows a block of the root."""
    cell, words = feedback.cell, _words("output")
    parts = [words["heading"].format(round=feedback.round, rounds=feedback.rounds)]
    if cell.stdout:
        limit = feedback.output_limit
        kept_hint = words["kept"].format(round=feedback.round)
        hint, full_length = (words["not_kept"], cell.stdout_chars) if cell.truncated else (kept_hint, None)
        parts.append(head_and_tail(cell.stdout.rstrip("\n"), limit, hint, full_length=full_length))
    if cell.stderr:
        parts.append(words["stderr"].format(text=head_and_tail(cell.stderr, STDERR_LIMIT, words["cut"])))
    if cell.result is not None:
        shown = head_and_tail(cell.result, RESULT_LIMIT, words["result_hint"])
        parts.append(words["result"].format(text=shown))
    parts.extend(_error(cell))
    if not (cell.stdout or cell.stderr or cell.result is not None or cell.status != "ok"):
        parts.append(words["nothing"])
    parts.extend(_variables(cell))
    parts.extend(_children(feedback))
    parts.extend(feedback.low)
    parts.extend(feedback.notes)
    return "\n\n".join(parts)


def bare_output(cell: CellResult, limit: int) -> str:
    """Return the output of a block without headings: what it printed, its result, its error."""
    error = f"{cell.ename}: {cell.evalue}" if cell.status != "ok" else ""
    parts = (cell.stdout, cell.result or "", error)
    cut = _words("output")["cut"]
    return "\n".join(head_and_tail(part, limit, cut) for part in parts if part)


def head_and_tail(text: str, limit: int, hint: str, *, full_length: int | None = None) -> str:
    """Cut `text` to `limit` characters: its head and its tail. A line between them shows the size of the gap.

    `full_length` is the original length, if `text` was already cut. That line ends with `hint`, in which
    {start} and {end} stand for the place of the gap.
    """
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    gap = max(full_length or 0, len(text)) - limit
    located_hint = hint.format(start=head, end=len(text) - tail)
    line = _words("output")["gap"].format(chars=f"{gap:,}", hint=located_hint)
    return f"{text[:head]}\n{line}\n{text[len(text) - tail :]}"


def _error(cell: CellResult) -> list[str]:
    words = _words("output")
    match cell.status:
        case "error":
            text = cell.traceback or f"{cell.ename}: {cell.evalue}"
            raised = words["raised"].format(text=head_and_tail(text, ERROR_LIMIT, words["cut"]))
            advice = advice_on(cell.ename or "", cell.evalue or "")
            return [f"{raised}\n{advice}" if advice else raised]
        case "timeout":
            if cell.ename == DIED:
                return [words["timeout_lost"].format(lost=cell.evalue)]
            return [words["timeout"]]
        case "died":
            return [words["died"].format(why=cell.evalue)]
        case _:
            return []


def _variables(cell: CellResult) -> list[str]:
    parts = []
    words = _words("output")
    changed = cell.report.changed
    if changed:
        lines = [str(variable) for variable in changed[:MAX_VARIABLES]]
        more = max(len(changed), cell.report.changed_count) - len(lines)
        if more:
            lines.append(words["more_changed"].format(count=f"{more:,}"))
        parts.append(words["changed"].format(lines="\n".join(lines)))
    if cell.report.rebound:
        names = ", ".join(cell.report.rebound)
        parts.append(words["rebound"].format(names=names, first=cell.report.rebound[0]))
    return parts


def _children(feedback: Feedback) -> list[str]:
    tally = feedback.children
    if not tally.made:
        return []
    words = _words("children")
    cost = words["unknown_cost"]
    if tally.cost_usd is not None:
        cost = words["cost"].format(cost=f"{tally.cost_usd:.4f}")
    line = words["summary"].format(
        made=tally.made,
        failed=tally.failed,
        empty=words["empty"].format(count=tally.empty) if tally.empty else "",
        cached=tally.cached,
        calls=words["calls"].format(calls=tally.calls) if tally.calls else "",
        seconds=f"{tally.seconds:.1f}",
        tokens=f"{tally.tokens:,}",
        cost=cost,
    )
    return [f"{line}\n{coverage_line(feedback.coverage)}"]


def coverage_line(coverage: Coverage) -> str:
    """Describe how much of the input was seen so far, and the first gaps."""
    input_chars, words = coverage.input_chars, _words("coverage")
    shares = {
        "sent": coverage.sent_chars,
        "failed": coverage.failed_chars,
        "read": coverage.read_chars,
        "scanned": coverage.scanned_chars,
    }
    parts = [
        words["answered"].format(
            answered=f"{coverage.answered_chars:,}",
            whole=f"{input_chars:,}",
            share=_share(coverage.answered_chars, input_chars),
        )
    ]
    seen = [words[name].format(share=_share(part, input_chars)) for name, part in shares.items() if part]
    if seen:
        parts.append(", ".join(seen))
    if coverage.chunks_total:
        parts.append(
            words["chunks"].format(
                processed=f"{coverage.chunks_processed:,}", total=f"{coverage.chunks_total:,}"
            )
        )
    parts.append(words["complete"].format(complete=coverage.complete))
    line = "; ".join(parts)
    if coverage.gaps and not coverage.complete:
        shown = ", ".join(f"{start:,}-{end:,}" for start, end in coverage.gaps[:GAPS_SHOWN])
        more = ", …" if len(coverage.gaps) > GAPS_SHOWN else ""
        line += words["gaps"].format(chars=f"{coverage.uncovered_chars:,}", spans=shown + more)
    return line


def _words(part: str) -> dict[str, str]:
    return cast(dict[str, str], table("feedback.toml")[part])


def _share(part: int, whole: int) -> str:
    if whole == 0 or part >= whole:
        return "100 %"
    return f"{min(99.9, 100 * part / whole):.1f} %" if part * 1000 >= whole or not part else "< 0.1 %"
