"""`rlm summarize`: a chat, a card, a log or documents."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible, run_with
from rlm.cli.console.out import OutOption, write_output
from rlm.cli.console.outcome import print_account, print_plan, say_left
from rlm.cli.console.render_result import account, answer_text, full_account
from rlm.cli.options import Options, takes
from rlm.cli.paths import PathsArgument
from rlm.escaping import json_bytes, terminal_text
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN
from rlm.status import plural

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm.accounting.run_plan import RunPlan
    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.tasks.summaries.summarize import Summary

__all__ = ["summarize"]

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
issue or pull request, a git log, a transcript or a log in plain text or Markdown. Cards and commits have the
headings of work; other texts go by subject. --form names headings (work, meeting, talk, story, log, board)
or a file with your own: `## Heading`, and what belongs there below. Each paragraph names its messages. A
model compares each sentence with them, and marks it if they do not support it.

--since reads only what is new, beside the earlier summary of the same input. It also resumes a summary that
was interrupted.
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
        typer.Option(help="card, chat, story: by messages; document: by paragraphs."),
    ] = "auto",
    tokens: Annotated[
        int | None,
        typer.Option(
            help="About this many tokens (default: what suits the input, at most 8,000).", show_default=False
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
    from rlm.tasks.summaries.summarize import summarize as run_summarize

    with options.observe() as (progress, observers):
        rlm = options.rlm(observers, runs_code=False, text_observers=progress.text_observers)
        sources = options.sources(paths)
        if options.dry_run:
            print_plan(run_interruptible(_plan(rlm, sources)), as_json=options.json)
            return
        try:
            work = run_summarize(rlm, sources, kind=kind, tokens=tokens, since=since, focus=focus, form=form)
            found = run_with(rlm, work)
        except KeyboardInterrupt:
            progress.close()
            run_id = progress.run_id
            say("interrupted" + (f"; to resume: the same command with --since {run_id}" if run_id else ""))
            say_left(progress.status.waiting)
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


def _text(found: Summary) -> str:
    """Return the summary. For documents, add the list of sources: nobody counts their paragraphs."""
    if found.kind == "history":
        return terminal_text(found.text)
    return answer_text(found.result)


def _support(found: Summary) -> str:
    """Return how many sentences their sources support, and what kind of check was made."""
    if found.form == "extracts":
        return f"no model wrote it: {plural(found.lines, 'line')} are sentences of the messages"
    model = found.result.support.model if found.result.support else None
    how = f"checked by {model}" if model else "only words were compared"
    count = f"{found.supported:,} of {plural(found.lines, 'sentence')}"
    return f"form {found.form}; {count} supported by what they cite ({how})"


def _account(found: Summary, *, verbose: bool) -> str:
    new = f", {found.messages - found.known:,} of them new" if found.known else ""
    entries = plural(found.messages, "message" if found.kind == "history" else "paragraph") + new
    if not verbose:
        return f"{entries} · {account(found.result)}"
    lines = [f"{entries} summarized", _support(found)]
    return terminal_text("\n".join([*lines, full_account(found.result)]))
