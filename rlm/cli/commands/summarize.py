"""`rlm summarize`: chats, cards and logs under five headings, documents section by section."""

from __future__ import annotations

from collections.abc import Sequence
from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.out import OutOption, written
from rlm.cli.console.outcome import print_plan
from rlm.cli.console.render_result import account, json_bytes, plural, printable
from rlm.cli.options import PathsArgument, RunOptions, takes_run_options

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.tasks.summaries.summarize import Summary

__all__ = ["summarize"]

_FACT_SHOWN = 100

EXAMPLES = """\b
Examples:
  rlm summarize card.json --tokens 2000
  git log | rlm summarize -
  gh issue view 12 --json number,title,body,author,createdAt,comments | rlm summarize -
  rlm summarize chat.jsonl --since 20260131-142501
  rlm summarize report.pdf --out summary.md

Histories are cards and chats (our card JSON, chats as JSON or JSON Lines, issues and pull requests of
GitHub, git log, logs in plain text or Markdown): Task Summary, Key Decisions, Errors Resolved, Current State
and Remaining Work, each line with the messages it came from. What must survive is looked for in the summary,
and the account on stderr says what was kept, put back or lost. With --since nothing is paid again that an
earlier summary of the same input paid for; the input may have grown. A summary that was interrupted is gone
on with in the same way.
"""


@takes_run_options(
    without_effect={
        "strategy": "a summary is made without a root",
        "contract": "a summary is made without a root",
        "max_rounds": "a summary is made without a root",
        "max_depth": "a summary is made without a root",
        "cell_seconds": "no code is run",
        "sandbox": "no code is run",
    },
    refused={"schema": "a summary is text"},
)
def summarize(
    ctx: typer.Context,
    paths: PathsArgument,
    kind: Annotated[
        Literal["auto", "card", "chat", "document"],
        typer.Option(help="card, chat: five headings; document: by sections; auto looks."),
    ] = "auto",
    tokens: Annotated[int, typer.Option(help="Tokens that the summary may take.")] = 8_000,
    since: Annotated[
        str | None,
        typer.Option(metavar="RUN", help="Go on from an earlier summary of this input.", show_default=False),
    ] = None,
    out: OutOption = None,
    *,
    given: RunOptions,
) -> None:
    """Summarize a chat, a card, a log or documents, with the source of every line."""
    with given.watched() as (progress, observers):
        rlm = given.rlm(ctx, observers, runs_code=False)
        sources = given.sources(paths)
        if given.dry_run:
            print_plan(run_interruptible(_planned(rlm, sources)), as_json=given.as_json)
            return
        try:
            found = run_interruptible(_summarized(rlm, sources, kind, tokens, since))
        except KeyboardInterrupt:
            progress.close()
            done = progress.run_id
            say("interrupted" + (f"; to go on with it: the same with --since {done}" if done else ""))
            raise typer.Exit(Exit.INTERRUPTED) from None
    written(json_bytes(found.to_json(), indent=2).decode() if given.as_json else _text(found), out)
    if not given.quiet:
        typer.echo(_account(found), err=True)
    if not found.text:
        raise typer.Exit(Exit.NO_ANSWER)
    if found.result.stop_reason == "model":
        raise typer.Exit(Exit.MODEL)


summarize.__doc__ = f"{summarize.__doc__}\n\n{EXAMPLES}"


async def _planned(rlm: RLM, sources: Sequence[Source]) -> RunPlan:
    """Every part read once, and one call over what came of it."""
    reading = copy(rlm)
    reading.settings = replace(rlm.settings, strategy="rlm")
    reading.limits = replace(rlm.limits, rounds=1)
    return await reading.plan(sources)


async def _summarized(
    rlm: RLM,
    sources: Sequence[Source],
    kind: Literal["auto", "card", "chat", "document"],
    tokens: int,
    since: str | None,
) -> Summary:
    from rlm.tasks.summaries.summarize import summarize as run

    try:
        return await run(rlm, sources, kind=kind, tokens=tokens, since=since)
    finally:
        await rlm.aclose()


def _text(found: Summary) -> str:
    """The summary, and for documents the list of its sources: a history's lines name their messages."""
    if found.kind == "history":
        return printable(found.text)
    from rlm.cli.console.render_result import answer_text

    return answer_text(found.result)


def _checked(found: Summary) -> str:
    """The rows of what had to survive."""
    counts = dict.fromkeys(("kept", "restored", "lost"), 0)
    for fact in found.facts:
        counts[fact.status] += 1
    head = f"{plural(len(found.facts), 'fact')} that must survive: " + ", ".join(
        f"{count:,} {status}" for status, count in counts.items()
    )
    rows = [
        f"  {fact.status:<8} {fact.heading:<15} [{fact.name}] {_shown(fact.text)}" for fact in found.facts
    ]
    return "\n".join([head, *rows])


def _shown(text: str) -> str:
    text = " ".join(text.split())
    return text if len(text) <= _FACT_SHOWN else text[: _FACT_SHOWN - 1] + "…"


def _account(found: Summary) -> str:
    new = f", {found.messages - found.known:,} of them new" if found.known else ""
    lines = [_checked(found)] if found.facts else []
    if found.kind == "history":
        lines.append(f"{plural(found.messages, 'message')} summarized{new}")
    return printable("\n".join([*lines, account(found.result)]))
