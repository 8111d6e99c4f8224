"""`rlm summarize`: talk, work, stories, cards and logs in a form that fits; documents by sections."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.out import OutOption, write_output
from rlm.cli.console.outcome import print_account, print_plan
from rlm.cli.console.render_result import account, full_account, plural
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.escaping import json_bytes, terminal_text
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.tasks.summaries.summarize import Summary

__all__ = ["summarize"]

_MAX_FACT = 100

EXAMPLES = """\b
Examples:
  rlm summarize examples/chat.md --tokens 500
  rlm summarize card.json --tokens 2000
  git log | rlm summarize -
  gh issue view 12 --json number,title,body,author,createdAt,comments | rlm summarize -
  rlm summarize chat.jsonl --since 20260131-142501
  rlm summarize meeting.txt --focus "what it means for the budget"
  rlm summarize board.jsonl --form headings.md
  rlm summarize report.pdf --out summary.md

A history is a card or a board (our JSON, GitHub, Jira, Linear, beads), a chat (JSON or JSON Lines), a GitHub
issue or pull request, a git log, a transcript or a log in plain text or Markdown. The kind of text picks the
headings: of work, a meeting, talk, a story or game, a log. --form names one of them (work, meeting, talk,
story, log, board) or a file with your own headings: `## Heading`, and what belongs there below. Each line
names its messages. A model compares each line with them, corrects it, or marks it as not supported.

--since reuses an earlier summary of the same input: its lines stay, what changed is replaced, and only new
text is paid for. It also resumes a summary that was interrupted.
"""


@takes(
    MODELS,
    INPUT,
    RUN,
    LIMITS,
    OUTPUT,
    JOURNAL,
    without=("strategy", "contract", "max_rounds", "max_depth", "cell_seconds", "sandbox", "mcp"),
)
def summarize(
    paths: PathsArgument = None,
    kind: Annotated[
        Literal["auto", "card", "chat", "document", "story"],
        typer.Option(help="document: by sections; card, chat, story: by messages or paragraphs."),
    ] = "auto",
    tokens: Annotated[
        int | None,
        typer.Option(
            help="Maximum tokens (default: what suits the input, at most 8,000).", show_default=False
        ),
    ] = None,
    focus: Annotated[str, typer.Option(help="What the summary is for.", show_default=False)] = "",
    form: Annotated[
        str | None,
        typer.Option(metavar="FORM|FILE", help="The headings: a form's name or a file.", show_default=False),
    ] = None,
    since: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Reuse that earlier summary of this input.", show_default=False),
    ] = None,
    out: OutOption = None,
    *,
    options: Options,
) -> None:
    """Summarize a chat, a card, a log or documents. Every line names its source."""
    with options.observe() as (progress, observers):
        rlm = options.rlm(observers, runs_code=False, text_observers=progress.text_observers)
        sources = options.sources(paths)
        if options.dry_run:
            print_plan(run_interruptible(_plan(rlm, sources)), as_json=options.json)
            return
        try:
            found = run_interruptible(
                _summarize(
                    rlm,
                    sources,
                    kind=kind,
                    tokens=tokens,
                    since=since,
                    focus=focus,
                    form=form,
                )
            )
        except KeyboardInterrupt:
            progress.close()
            run_id = progress.run_id
            say("interrupted" + (f"; to resume: the same command with --since {run_id}" if run_id else ""))
            if progress.waiting.ids:
                say(progress.waiting.describe_left())
            raise typer.Exit(Exit.INTERRUPTED) from None
    write_output(json_bytes(found.to_json(), indent=2).decode() if options.json else _text(found), out)
    if not options.quiet:
        print_account(_account(found, verbose=options.verbose))
    if not found.text:
        raise typer.Exit(Exit.NO_ANSWER)
    if found.result.stop_reason == "model":
        raise typer.Exit(Exit.MODEL)


summarize.__doc__ = f"{summarize.__doc__}\n\n{EXAMPLES}"


async def _plan(rlm: RLM, sources: Sequence[Source]) -> RunPlan:
    """Return what it takes to read every part once, with one call over the results."""
    reading = copy(rlm)
    reading.settings = replace(rlm.settings, strategy="rlm")
    reading.limits = replace(rlm.limits, max_rounds=1)
    return await reading.plan(sources)


async def _summarize(rlm: RLM, sources: Sequence[Source], **how: Any) -> Summary:
    from rlm.tasks.summaries.summarize import summarize as run

    try:
        return await run(rlm, sources, **how)
    finally:
        await rlm.aclose()


def _text(found: Summary) -> str:
    """Return the summary. For documents, add the list of sources: a history names them in its lines."""
    if found.kind == "history":
        return terminal_text(found.text)
    from rlm.cli.console.render_result import answer_text

    return answer_text(found.result)


def _fact_rows(found: Summary) -> str:
    """Return a row for each fact that must survive."""
    counts = dict.fromkeys(("kept", "restored", "lost"), 0)
    for fact in found.facts:
        counts[fact.status] += 1
    head = f"{plural(len(found.facts), 'fact')} that must survive: " + ", ".join(
        f"{count:,} {status}" for status, count in counts.items()
    )
    rows = [
        f"  {fact.status:<8} {fact.heading:<15} [{fact.name}] {_shortened(fact.text)}" for fact in found.facts
    ]
    return "\n".join([head, *rows])


def _shortened(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _MAX_FACT else text[: _MAX_FACT - 1] + "…"


def _support(found: Summary) -> str:
    """Return how many lines their messages support, and what kind of check was made."""
    count = f"{found.supported:,} of {plural(found.lines, 'line')}"
    if found.form == "extracts":
        return f"no model wrote it: {plural(found.lines, 'line')} are sentences of the messages, or computed"
    model = found.result.support.model if found.result.support else None
    how = f"checked by {model}" if model else "only words were compared"
    return f"form {found.form}; {count} supported by the messages that they cite ({how})"


def _account(found: Summary, *, verbose: bool) -> str:
    new = f", {found.messages - found.known:,} of them new" if found.known else ""
    messages = f"{plural(found.messages, 'message')}{new}"
    if not verbose:
        return (f"{messages} · " if found.kind == "history" else "") + account(found.result)
    lines = [_fact_rows(found)] if found.facts else []
    if found.kind == "history":
        lines += [f"{messages} summarized", _support(found)]
    return terminal_text("\n".join([*lines, full_account(found.result)]))
