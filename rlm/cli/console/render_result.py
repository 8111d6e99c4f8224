"""A result as text: the answer, its sources, and the account of the run."""

from __future__ import annotations

import json
import re
from typing import TYPE_CHECKING, Any

from rich.text import Text

from rlm.cli.console.option_names import option_of
from rlm.models.http.wire_messages import encodable
from rlm.results import Citation, RunResult

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan

__all__ = [
    "account",
    "answer_text",
    "dollars",
    "json_bytes",
    "no_answer",
    "plan_text",
    "plural",
    "printable",
    "share",
    "style_answer",
]

_MARK = re.compile("\\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\\]")
_SOURCE_PARTS = re.compile("(NOT FOUND in the input)|“.*”$", re.MULTILINE)

_REMOVED = dict.fromkeys(
    [
        *(code for code in range(0x20) if chr(code) not in "\n\t"),
        *range(0x7F, 0xA0),
        *range(0x2028, 0x202F),  # line and paragraph separators, direction overrides
        *range(0x2066, 0x206A),  # direction isolates
    ]
)
_ESCAPED = str.maketrans({"\n": "\\n", "\t": "\\t"})


def printable(text: str) -> str:
    """Return `text` without terminal controls and direction overrides.

    Surrogates, which UTF-8 cannot encode, become U+FFFD.
    """
    return encodable(text).translate(_REMOVED)


def json_bytes(value: Any, *, indent: int | None = None) -> bytes:
    """Return `value` as JSON in UTF-8, whatever the encoding of the terminal."""
    return encodable(json.dumps(value, ensure_ascii=False, indent=indent)).encode()


def answer_text(result: RunResult) -> str:
    """Return the answer with its markers, and the numbered list of its sources."""
    sources = "\n".join(f"  {_source(citation)}" for citation in result.citations)
    return printable(result.text + (f"\n\nSources\n{sources}" if sources else ""))


def style_answer(text: str) -> Text:
    """Style the text of `answer_text`: markers are cyan, quotes dim, quotes that were not found red."""
    styled = Text(text)
    head, heading, _ = text.rpartition("\n\nSources\n")
    sources = len(head) if heading else len(text)
    for match in _MARK.finditer(text):
        styled.stylize("bold cyan", *match.span())
    for match in _SOURCE_PARTS.finditer(text, sources):
        styled.stylize("bold red" if match[1] else "dim", *match.span())
    styled.stylize("bold", sources, sources + len(heading))
    return styled


def _source(citation: Citation) -> str:
    if not citation.verified:
        return f"{citation.marker} NOT FOUND in the input: “{citation.shown}”"
    return f"{citation.marker} {citation.place.translate(_ESCAPED)}  “{citation.shown}”"


def account(result: RunResult) -> str:
    """Return the cost and the coverage of a run, its warnings and its name, a line each."""
    coverage = result.coverage
    cause, limit = result.cause, result.exhausted_limit
    lines = [
        f"{result.strategy}, {plural(result.rounds, 'round')}, {plural(result.sub_calls, 'child call')}, "
        f"{result.seconds:.1f} s, {_cost(result)}"
        + (f"; confidence {result.confidence}" if result.confidence is not None else "")
        + ("; ended by a limit" if result.forced else ""),
        f"input {coverage.input_chars:,} characters: {share(coverage.scanned_chars, coverage.input_chars)} "
        f"searched, {share(coverage.read_chars, coverage.input_chars)} read by code, "
        f"{share(coverage.answered_chars, coverage.input_chars)} read by children"
        + _verified(result.citations),
        *(f"note: {_line(warning)}" for warning in result.warnings if warning != cause),
        *([f"note: a limit ended it; raise {option_of(limit)}"] if limit and cause is None else []),
        f"run {result.run_id} (rlm show {result.run_id})",
    ]
    return "\n".join(lines)


def plan_text(plan: RunPlan) -> str:
    """Return what a run would take, in a few lines."""
    models = plan.model if plan.model == plan.sub_model else f"{plan.model}, children {plan.sub_model}"
    cost = "cost unknown" if plan.cost_usd is None else dollars(plan.cost_usd)
    time = f", {plan.seconds:,.0f} s" if plan.seconds else ""
    reading = "one call" if plan.strategy == "direct" else "if children read every part once"
    return (
        f"{plan.strategy}, {models}\n"
        f"input {plan.chars:,} characters, {plural(plan.documents, 'document')}\n"
        f"about {plural(plan.calls, 'call')}, {plan.tokens:,} tokens, {cost}{time} "
        f"({reading})\n"
        "nothing was spent"
    )


def no_answer(result: RunResult) -> str | None:
    """Return why there is no answer, and the option to raise if a limit is why; None when there is one."""
    limit = result.exhausted_limit
    return result.cause and result.cause + (f"; raise {option_of(limit)}" if limit else "")


def _line(warning: str) -> str:
    return printable(" ".join(warning.split()))


def _verified(citations: tuple[Citation, ...]) -> str:
    if not citations:
        return ""
    verified = sum(citation.verified for citation in citations)
    return f"; {verified} of {plural(len(citations), 'citation')} verified"


def _cost(result: RunResult) -> str:
    costs = [usage.cost_usd for usage in result.usage]
    if any(cost is None for cost in costs):
        return "cost unknown"
    return dollars(sum(cost for cost in costs if cost is not None))


def dollars(amount: float) -> str:
    """`$0`, `$0.0123`, `$12.34`."""
    return "$0" if amount == 0 else f"${amount:.4f}" if amount < 1 else f"${amount:,.2f}"


def plural(count: int, noun: str) -> str:
    """`1 round`, `1,200 rounds`."""
    return f"{count:,} {noun}" if count == 1 else f"{count:,} {noun}s"


def share(part: int, whole: int) -> str:
    """`0 %`, `< 0.1 %`, `12.3 %`, `100 %`."""
    if whole == 0 or part >= whole:
        return "100 %"
    percent = 100 * part / whole
    return "0 %" if part == 0 else f"{percent:.1f} %" if percent >= 0.1 else "< 0.1 %"
