"""Renders the message that shows the root the result of its block. Every part has a size limit."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import cast

from rlm.children.child_answers import ChildTally
from rlm.escaping import json_text
from rlm.prompts.boundary import ForeignText, bounded
from rlm.prompts.recipes.notices import advice_on
from rlm.prompts.templates import table
from rlm.results import Coverage
from rlm.sandbox.types import DIED, CellResult

__all__ = ["Feedback", "bare_output", "coverage_line", "head_and_tail", "render"]

MAX_VARIABLES = 40
ERROR_LIMIT = 3_000
RESULT_LIMIT = 2_000
STDERR_LIMIT = 1_000
GAPS_SHOWN = 5
_GAPS_FROM = 0.5
"""Gaps are listed once this share of the input is answered for. A look-up leaves most of it unread."""
_TASK_SHOWN = 300
_LAST_ROUNDS = 3
"""Rounds before the end in which the root is told that the last one is for finalize."""
_SMALL_REST = 500
"""Characters above a limit that are shown: to fetch them would cost a round."""


@dataclass(frozen=True, slots=True)
class Feedback:
    """The parts of the message. `low`: warnings about limits that are almost used up. `left`: the child calls
    and the seconds that are left, or None to say nothing of them. They are named after children, near the
    end, and with `task`, which is repeated if it is given. `notes` come last."""

    round: int
    rounds: int
    cell: CellResult
    children: ChildTally
    coverage: Coverage
    low: Sequence[str] = ()
    left: tuple[int, float] | None = None
    task: str = ""
    notes: Sequence[str] = ()
    output_limit: int = 8_000


def render(feedback: Feedback) -> str:
    """Return the user message that follows a block of the root.

    All that the kernel said, names of variables included, stands between lines that it cannot forge.
    """
    cell, words = feedback.cell, _words("output")
    output = _output(feedback)
    parts = [words["heading"].format(round=feedback.round, rounds=feedback.rounds)]
    if output:
        parts[0] += "\n" + bounded(output, words["end"])
    if not (cell.stdout or cell.stderr or cell.result is not None or cell.status != "ok"):
        parts.append(words["nothing"])
    parts.extend(_error(cell))
    parts.extend(_children(feedback))
    parts.extend(feedback.low)
    parts.extend(_footer(feedback))
    if feedback.task:
        shown = " ".join(feedback.task[: 2 * _TASK_SHOWN].split())[:_TASK_SHOWN]
        parts.append(table("feedback.toml")["task"].format(task=json_text(shown)))
    parts.extend(feedback.notes)
    return "\n\n".join(parts)


def _footer(feedback: Feedback) -> list[str]:
    """Say what is left where it matters: after children, with the task, and near the end."""
    ends = feedback.rounds - feedback.round <= _LAST_ROUNDS
    if feedback.left is None or not (ends or feedback.task or feedback.children.made):
        return []
    data = table("feedback.toml")
    calls, seconds = feedback.left
    left = data["footer"].format(calls=calls, seconds=seconds)
    return [f"{left} {data['last_rounds'].format(rounds=feedback.rounds)}" if ends else left]


def bare_output(cell: CellResult, limit: int) -> str:
    """Return the output of a block without headings: what it printed, its result, its error."""
    error = f"{cell.ename}: {cell.evalue}" if cell.status != "ok" else ""
    parts = (cell.stdout, cell.result or "", error)
    cut = _words("output")["cut"]
    return "\n".join(head_and_tail(part, limit, cut) for part in parts if part)


def head_and_tail(text: str, limit: int, hint: str) -> str:
    """Cut `text` to `limit` characters: its head and its tail. A line between them shows the size of the gap
    and `hint`."""
    cut = _cut("", text, limit, hint)
    return f"{cut.text}\n[… {cut.gap} …]\n{cut.rest}" if cut.gap else text


def _cut(label: str, text: str, limit: int, hint: str, *, full_length: int | None = None) -> ForeignText:
    """Return `text` with at most `limit` characters: its head and its tail.

    `full_length` is the original length, if `text` was already cut. The gap is described by its size and
    `hint`, in which {start} and {end} stand for its place.
    """
    rest = max(full_length or 0, len(text)) - limit
    if rest <= min(_SMALL_REST, limit // 10):
        return ForeignText(label, text)
    head = limit * 2 // 3
    tail = len(text) - (limit - head)
    located_hint = hint.format(start=head, end=tail)
    words = _words("output")["gap"].format(chars=f"{rest:,}", hint=located_hint)
    return ForeignText(label, text[:head], words, text[tail:])


def _output(feedback: Feedback) -> list[ForeignText]:
    cell, words = feedback.cell, _words("output")
    texts = []
    if cell.stdout:
        kept_hint = words["kept"].format(round=feedback.round)
        hint, full_length = (words["not_kept"], cell.stdout_chars) if cell.truncated else (kept_hint, None)
        printed = cell.stdout.rstrip("\n")
        texts.append(_cut(words["printed"], printed, feedback.output_limit, hint, full_length=full_length))
    if cell.stderr:
        texts.append(_cut(words["stderr"], cell.stderr, STDERR_LIMIT, words["cut"]))
    if cell.result is not None:
        texts.append(_cut(words["result"], cell.result, RESULT_LIMIT, words["result_hint"]))
    if cell.status == "error":
        text = cell.traceback or f"{cell.ename}: {cell.evalue}"
        texts.append(_cut(words["traceback"], text, ERROR_LIMIT, words["cut"]))
    elif cell.ename == DIED:
        texts.append(_cut(words["cause"], cell.evalue, ERROR_LIMIT, words["cut"]))
    changed = cell.report.changed
    if changed:
        shown = changed[:MAX_VARIABLES]
        more = max(len(changed), cell.report.changed_count) - len(shown)
        lines = "\n".join(map(str, shown))
        gap = words["more_changed"].format(count=f"{more:,}") if more > 0 else ""
        texts.append(ForeignText(words["changed"], lines, gap))
    if cell.report.rebound:
        texts.append(ForeignText(words["rebound"], ", ".join(cell.report.rebound)))
    return texts


def _error(cell: CellResult) -> list[str]:
    words = _words("output")
    match cell.status:
        case "error":
            advice = advice_on(cell.ename or "", cell.evalue or "")
            return [f"{words['raised']}\n{advice}" if advice else words["raised"]]
        case "timeout":
            return [words["timeout_lost" if cell.ename == DIED else "timeout"]]
        case "died":
            return [words["died"]]
        case _:
            return []


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
    # A look-up answers for a few passages: it is not unfinished because the rest was not read.
    nears_the_whole = coverage.answered_chars >= _GAPS_FROM * input_chars
    if coverage.complete or nears_the_whole:
        parts.append(words["complete"].format(complete=coverage.complete))
    line = f"{'; '.join(parts)}."
    if coverage.gaps and not coverage.complete and nears_the_whole:
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
