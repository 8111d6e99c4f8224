"""`rlm summarize`: chats, cards and logs under five headings, documents section by section."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.answer import account, json_bytes, plural, printable
from rlm.cli.config import ConfigOption
from rlm.cli.exits import Exit, say
from rlm.cli.interrupts import run_interruptible
from rlm.cli.options import (
    ExcludeOption,
    JsonOption,
    MaxCallsOption,
    MaxCostOption,
    MaxSecondsOption,
    MaxTokensOption,
    ModelOption,
    Models,
    NoCacheOption,
    OutOption,
    PathsArgument,
    QuietOption,
    SubModelOption,
    SummaryModelOption,
    TraceOption,
    rlm_of,
    written,
)
from rlm.cli.store import StoreOption

if TYPE_CHECKING:
    from rlm.documents import Source
    from rlm.events import Observer
    from rlm.runtime import RLM
    from rlm.tasks.summarize import Summary

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
    model: ModelOption = None,
    sub_model: SubModelOption = None,
    summary_model: SummaryModelOption = None,
    exclude: ExcludeOption = None,
    max_calls: MaxCallsOption = 1_000,
    max_tokens: MaxTokensOption = 10_000_000,
    max_cost: MaxCostOption = 5.0,
    max_seconds: MaxSecondsOption = 1_800.0,
    trace: TraceOption = None,
    store: StoreOption = None,
    no_cache: NoCacheOption = False,
    as_json: JsonOption = False,
    quiet: QuietOption = False,
    config: ConfigOption = None,
) -> None:
    """Summarize a chat, a card, a log or documents, with the source of every line."""
    from rlm.budget import Limits
    from rlm.cli.progress import Progress
    from rlm.documents import sources_from_arguments
    from rlm.trace import TraceFile

    limits = Limits(sub_calls=max_calls, tokens=max_tokens, cost_usd=max_cost, seconds=max_seconds)
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(quiet=quiet, seconds=max_seconds))
        observers: list[Observer] = [progress.take]
        if trace is not None:
            observers.append(stack.enter_context(TraceFile(trace)).take)
        models = Models(model, sub_model, summary_model)
        rlm = rlm_of(ctx, models, limits, observers, store=store, no_cache=no_cache)
        sources = sources_from_arguments(paths, sys.stdin.buffer, exclude=exclude or ())
        try:
            found = run_interruptible(_summarized(rlm, sources, kind, tokens, since))
        except KeyboardInterrupt:
            progress.close()
            done = progress.run_id
            say("interrupted" + (f"; to go on with it: the same with --since {done}" if done else ""))
            raise typer.Exit(Exit.INTERRUPTED) from None
    written(json_bytes(found.to_json(), indent=2).decode() if as_json else _text(found), out)
    if not quiet:
        typer.echo(_account(found), err=True)
    if not found.text:
        raise typer.Exit(Exit.NO_ANSWER)
    if found.result.stop_reason == "model":
        raise typer.Exit(Exit.MODEL)


summarize.__doc__ = f"{summarize.__doc__}\n\n{EXAMPLES}"


async def _summarized(
    rlm: RLM,
    sources: Sequence[Source],
    kind: Literal["auto", "card", "chat", "document"],
    tokens: int,
    since: str | None,
) -> Summary:
    from rlm.tasks.summarize import summarize as run

    try:
        return await run(rlm, sources, kind=kind, tokens=tokens, since=since)
    finally:
        await rlm.aclose()


def _text(found: Summary) -> str:
    """The summary, and for documents the list of its sources: a history's lines name their messages."""
    if found.kind == "history":
        return printable(found.text)
    from rlm.cli.answer import answer_text

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
