"""What the root is told of the cell it wrote: bounded, and only what it can use."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from rlm.children.tally import ChildTally
from rlm.prompts.recipes.corrections import advice_on
from rlm.results import Coverage
from rlm.sandbox.types import CellResult

__all__ = ["Feedback", "coverage_line", "head_and_tail", "render", "said"]

MAX_VARIABLES = 40
ERROR_LIMIT = 3_000
RESULT_LIMIT = 2_000
GAPS_SHOWN = 5


@dataclass(frozen=True, slots=True)
class Feedback:
    """Everything the message is made of. `low` are lines about limits that run out, `notes` come last."""

    round: int
    rounds: int
    cell: CellResult
    children: ChildTally
    coverage: Coverage
    low: Sequence[str] = ()
    notes: Sequence[str] = ()
    output_limit: int = 8_000


def render(feedback: Feedback) -> str:
    """The user message that answers a root's block."""
    cell = feedback.cell
    parts = [f"Output of your block, round {feedback.round} of {feedback.rounds}"]
    if cell.stdout:
        limit = feedback.output_limit
        where = f"they are output_of({feedback.round})[{{start}}:{{end}}]"
        hint, whole = ("the rest is not kept", cell.stdout_chars) if cell.truncated else (where, None)
        parts.append(head_and_tail(cell.stdout.rstrip("\n"), limit, hint, whole=whole))
    if cell.stderr:
        parts.append("stderr:\n" + head_and_tail(cell.stderr, 1_000, "cut"))
    if cell.result is not None:
        parts.append("Result: " + head_and_tail(cell.result, RESULT_LIMIT, "print less of it"))
    parts.extend(_error(cell))
    if not (cell.stdout or cell.stderr or cell.result is not None or cell.status != "ok"):
        parts.append("(It printed nothing.)")
    parts.extend(_variables(cell))
    parts.extend(_children(feedback))
    parts.extend(feedback.low)
    parts.extend(feedback.notes)
    return "\n\n".join(parts)


def said(cell: CellResult, limit: int) -> str:
    """What a block said for itself, without the words around it: what it printed, its result, its error."""
    error = f"{cell.ename}: {cell.evalue}" if cell.status != "ok" else ""
    parts = (cell.stdout, cell.result or "", error)
    return "\n".join(head_and_tail(part, limit, "cut") for part in parts if part)


def head_and_tail(text: str, limit: int, hint: str, *, whole: int | None = None) -> str:
    """`text` within `limit` characters: its first and last part, with the gap named in characters. `whole`
    is its true size where `text` itself was cut before. `hint` may say where the gap is: {start}, {end}."""
    if len(text) <= limit:
        return text
    head = limit * 2 // 3
    tail = limit - head
    gap = max(whole or 0, len(text)) - limit
    said = hint.format(start=head, end=len(text) - tail)
    return f"{text[:head]}\n[… {gap:,} characters not shown; {said} …]\n{text[len(text) - tail :]}"


def _error(cell: CellResult) -> list[str]:
    match cell.status:
        case "error":
            text = cell.traceback or f"{cell.ename}: {cell.evalue}"
            raised = (
                "Your block raised; every variable it had assigned before that is kept:\n"
                + head_and_tail(text, ERROR_LIMIT, "cut")
            )
            advice = advice_on(cell.ename or "", cell.evalue or "")
            return [f"{raised}\n{advice}" if advice else raised]
        case "timeout":
            lost = "" if cell.ename != "KernelDied" else f" {cell.evalue}."
            return [f"Your block ran over its time and was interrupted.{lost}"]
        case "died":
            return [f"The kernel is gone: {cell.evalue}."]
        case _:
            return []


def _variables(cell: CellResult) -> list[str]:
    parts = []
    changed = cell.report.changed
    if changed:
        lines = [str(variable) for variable in changed[:MAX_VARIABLES]]
        if len(changed) > MAX_VARIABLES:
            lines.append(f"… and {len(changed) - MAX_VARIABLES} more (SHOW_VARS() lists all)")
        parts.append("New or changed variables:\n" + "\n".join(lines))
    if cell.report.rebound:
        names = ", ".join(cell.report.rebound)
        parts.append(f"You rebound {names}; the helper is still there as helpers.{cell.report.rebound[0]}.")
    return parts


def _children(feedback: Feedback) -> list[str]:
    tally = feedback.children
    if not tally.made:
        return []
    cost = "unknown cost" if tally.cost_usd is None else f"${tally.cost_usd:.4f}"
    empty = f" {tally.empty} found nothing," if tally.empty else ""
    return [
        f"Children: {tally.made} asked, {tally.failed} failed,{empty} {tally.cached} from memory; "
        f"{tally.seconds:.1f} s, {tally.tokens:,} tokens, {cost}.\n{coverage_line(feedback.coverage)}"
    ]


def coverage_line(coverage: Coverage) -> str:
    """What was seen of the input so far, and the first stretches that were not."""
    whole = coverage.input_chars
    shares = {
        "sent": coverage.sent_chars,
        "failed": coverage.failed_chars,
        "handed to your code": coverage.read_chars,
        "searched": coverage.scanned_chars,
    }
    line = (
        f"Answered for so far: {coverage.answered_chars:,} of {whole:,} characters "
        f"({_share(coverage.answered_chars, whole)}); "
        + ", ".join(f"{_share(part, whole)} {name}" for name, part in shares.items() if part)
    ).rstrip("; ")
    if coverage.chunks_total:
        line += f"; {coverage.chunks_processed:,} of {coverage.chunks_total:,} chunks processed"
    line += f"; complete={coverage.complete}."
    if coverage.gaps and not coverage.complete:
        shown = ", ".join(f"{start:,}-{end:,}" for start, end in coverage.gaps[:GAPS_SHOWN])
        more = ", …" if len(coverage.gaps) > GAPS_SHOWN else ""
        line += f" Neither answered for nor read: {coverage.uncovered_chars:,} characters ({shown}{more})."
    return line


def _share(part: int, whole: int) -> str:
    if whole == 0 or part >= whole:
        return "100 %"
    return f"{min(99.9, 100 * part / whole):.1f} %" if part * 1000 >= whole or not part else "< 0.1 %"
