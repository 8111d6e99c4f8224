"""A result as text: the answer, its sources, and the account of the run."""

from __future__ import annotations

import re
from textwrap import shorten
from typing import TYPE_CHECKING

from rich.text import Text

from rlm.cli.console.exits import option_of
from rlm.escaping import RULE, terminal_answer, terminal_line, terminal_text
from rlm.models.base import EXTRACTIVE
from rlm.results import GUESSED_WINDOW, Citation, RunResult
from rlm.status import dollars, plural, share

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan

__all__ = [
    "account",
    "answer_text",
    "full_account",
    "highlight",
    "no_answer",
    "plan_text",
    "style_account",
    "style_answer",
]

_MAX_CLAIM = 160
_MAX_CLAIMS = 5
_MAX_NOTE = 240
_MARK = re.compile("\\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\\]")
_NOTICE = re.compile("^note: .*$|[\\d,]+ not read|ended by a limit|confidence low|cost unknown", re.MULTILINE)
_SOURCES = f"\n\n{RULE}\nSources\n"
_SOURCE_PARTS = re.compile("^  (\\[[⁰¹²³⁴⁵⁶⁷⁸⁹]+\\])|(?<=\\] )(NOT FOUND in the input)|“.*”$", re.MULTILINE)


def answer_text(result: RunResult, *, markdown: bool = True) -> str:
    """Return the answer with its markers, and the numbered list of its sources below a rule. `markdown`: as
    `terminal_answer`.

    No answer can hold the rule. An answer that claims sources and has none gets the list, too: it says so.
    """
    answer = result.marked_text
    is_text = isinstance(result.answer, str)
    shown = terminal_answer(answer, markdown=markdown) if is_text else terminal_text(answer)
    sources = result.listed
    if sources is None:
        return shown
    return shown + _SOURCES + ("\n".join(f"  {_source(citation)}" for citation in sources) or "  none")


def style_answer(text: str) -> Text:
    """Style the text of `answer_text`: markers are cyan, quotes dim, quotes that were not found red."""
    styled = Text(text)
    head, heading, _ = text.rpartition(_SOURCES)
    end = len(head) if heading else len(text)
    for match in _MARK.finditer(text, 0, end):
        styled.stylize("bold cyan", *match.span())
    for match in _SOURCE_PARTS.finditer(text, end + len(heading)):
        if match[1]:
            styled.stylize("bold cyan", *match.span(1))
        else:
            styled.stylize("bold red" if match[2] else "dim", *match.span())
    if heading:
        rule = end + len(RULE) + 2
        styled.stylize("dim", end, rule)
        styled.stylize("bold", rule, end + len(heading))
    return styled


def style_account(text: str) -> Text:
    """Style the text of `account`: it is dim, and what a reader should notice is yellow."""
    styled = Text(text, style="dim")
    for match in _NOTICE.finditer(text):
        styled.stylize("not dim yellow", *match.span())
    return styled


def highlight(code: str) -> list[Text]:
    """Return the lines of Python code in colours. The code must have passed `terminal_text`."""
    from rich.syntax import Syntax

    shown = Syntax("", "python", theme="ansi_dark", background_color="default").highlight(code)
    return list(shown.split("\n"))


def _source(citation: Citation) -> str:
    shown = terminal_text(citation.shown)
    if citation.seen:
        quote = f" “{shown}”" if shown else ""
        return f"{citation.marker} {terminal_line(citation.place)}  {citation.remark}{quote}"
    if not citation.verified:
        return f"{citation.marker} NOT FOUND in the input: “{shown}”"
    return f"{citation.marker} {terminal_line(citation.place)}  “{shown}”"


def account(result: RunResult, documents: int | None = None) -> str:
    """Return what was read and what it took, in one line, and a second one for what a reader should know."""
    # A guessed window is no news of this run. It may be why the model failed.
    notes = [
        note
        for note in _notes(result, newest_first=True)
        if result.stop_reason == "model" or not note.startswith(GUESSED_WINDOW)
    ]
    lines = [_line_of_account(result, documents, _verified(result))]
    if notes:
        first = shorten(notes[0], _MAX_NOTE, placeholder=" …")
        lines.append(f"note: {first}" + (f" ({len(notes) - 1:,} more)" if len(notes) > 1 else ""))
    return "\n".join(lines)


def full_account(result: RunResult) -> str:
    """Return the line of account, how well the answer is supported, all notes and the run's name, a line
    each."""
    pages = result.coverage.pages_looked
    lines = [
        _line_of_account(result, None, f"confidence {result.confidence}" if result.confidence else ""),
        f"{plural(pages, 'page')} looked at" if pages else "",
        # What was copied supports itself.
        "" if _is_offline(result) else terminal_line(result.figures),
        *(f"note: {note}" for note in _notes(result)),
        f"run {result.run_id}: {result.strategy}",
    ]
    return "\n".join(line for line in lines if line)


def _line_of_account(result: RunResult, documents: int | None, more: str) -> str:
    chars = result.coverage.input_chars
    sizes = [plural(documents, "document")] if documents else []
    parts = [
        ", ".join([*sizes, *([plural(chars, "character")] if chars else [])]),
        f"{len(result.unread):,} not read" if result.unread else "",
        _share_seen(result),
        _work(result),
        more,
        f"{result.seconds:.1f} s",
        "ended by a limit" if result.forced else "",
        "rlm show",
    ]
    return " · ".join(part for part in parts if part)


def _share_seen(result: RunResult) -> str:
    """Return the share of the input that was searched, of which what was read is a part; "" for no input."""
    coverage = result.coverage
    whole = coverage.input_chars
    if not whole:
        return ""
    if coverage.complete:
        return "100 % read"
    return f"{share(max(coverage.scanned_chars, whole - coverage.uncovered_chars), whole)} searched"


def _verified(result: RunResult) -> str:
    """Return how many citations are in the input; "" where no model could have made one up."""
    if _is_offline(result) or not result.citations:
        return ""
    verified = sum(citation.verified for citation in result.citations)
    return f"{verified:,} of {plural(len(result.citations), 'citation')} verified"


def _work(result: RunResult) -> str:
    """Return rounds, calls, thinking and dollars; "" if no model was asked."""
    if _is_offline(result):
        return ""
    calls = sum(usage.calls for usage in result.usage)
    thinking = sum(usage.reasoning_tokens for usage in result.usage)
    counts = [plural(result.rounds, "round")] if result.rounds else []
    counts += [plural(calls, "call"), _cost(result)]
    return ", ".join([*counts, *([f"{thinking:,} tokens of thinking"] if thinking else [])])


def _is_offline(result: RunResult) -> bool:
    return all(usage.model == EXTRACTIVE for usage in result.usage)


def _notes(result: RunResult, *, newest_first: bool = False) -> list[str]:
    """Return what a reader should know of the answer, what matters most first. Of warnings the newest matter
    most: the first ones are about the input and the models' names."""
    cause, limit = result.cause, result.exhausted_limit
    notes = [f"a limit ended it; raise {option_of(limit)}"] if limit and cause is None else []
    notes += _refusals(result)
    notes += _unsupported(result)
    notes += result.support.notes if result.support else ()
    warnings = result.warnings[::-1] if newest_first else result.warnings
    notes += [warning for warning in warnings if warning != cause]
    return list(dict.fromkeys(map(_line, notes)))


def plan_text(plan: RunPlan) -> str:
    """Return what a run would take, in a few lines."""
    models = plan.model if plan.model == plan.sub_model else f"{plan.model}, children {plan.sub_model}"
    cost = "cost unknown" if plan.cost_usd is None else dollars(plan.cost_usd)
    time = f", {plan.seconds:,.0f} s" if plan.seconds else ""
    reading = (
        "one call"
        if plan.strategy == "direct"
        else f"if children of up to {plan.child_tokens:,} tokens read every part once"
    )
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
    return terminal_text(" ".join(warning.split()))


def _refusals(result: RunResult) -> list[str]:
    """Return a line about the caller's check, if it refused an answer."""
    return [
        f"the check {'passed' if gate.passed else 'did not pass'} after "
        f"{plural(len(gate.refusals), 'refusal')} (the last: {_line(gate.refusals[-1])})"
        for gate in result.gates
        if gate.name == "check" and gate.refusals
    ]


def _unsupported(result: RunResult) -> list[str]:
    """Return a line for each of the first claims that are not supported, with the reason."""
    support = result.support
    claims = [] if support is None else [one for one in support.claims if one.status == "unsupported"]
    shown = [f"not supported: “{one.text[:_MAX_CLAIM]}” ({one.reason})" for one in claims[:_MAX_CLAIMS]]
    rest = len(claims) - _MAX_CLAIMS
    return [*shown, f"{plural(rest, 'more claim')} not supported"] if rest > 0 else shown


def _cost(result: RunResult) -> str:
    return "cost unknown" if result.cost_usd is None else dollars(result.cost_usd)
