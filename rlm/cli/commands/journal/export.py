"""`rlm export`: the events of runs, or their conversations as training data."""

from __future__ import annotations

import os
import time
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import asdict
from datetime import datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.commands.journal.runs import parse_age
from rlm.cli.console.exits import say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.out import check_out, open_output
from rlm.cli.console.render_result import plural
from rlm.cli.store import StoreOption
from rlm.errors import RLMError, UsageError
from rlm.escaping import json_bytes

if TYPE_CHECKING:
    from rlm.replay import Golds, Selection

__all__ = ["export"]

Format = Literal["events", "messages", "sft"]
_WHICH = "Which runs"
_Line = dict[str, Any]


def _option(help_: str, *names: str, **more: Any) -> Any:
    return typer.Option(*names, help=help_, show_default=False, rich_help_panel=_WHICH, **more)


def export(
    runs: Annotated[
        list[str] | None,
        typer.Argument(
            metavar="RUN",
            help="Names of runs, or their first characters; latest (-1) is the newest run, latest~1 (-2) the "
            "one before it. Default: the newest.",
            show_default=False,
        ),
    ] = None,
    *,
    format_: Annotated[
        Format,
        typer.Option(
            "--format",
            "-f",
            help="events of the journal; messages: each conversation with its reward; sft: examples for "
            "supervised fine-tuning, only of runs with an answer.",
        ),
    ] = "events",
    all_: Annotated[bool, _option("All runs of the journal that the other options take.", "--all")] = False,
    model_like: Annotated[str | None, _option("A pattern of the root's model: 'openai:*'.")] = None,
    status: Annotated[str | None, _option("A state or a stop reason: finalized, rounds, cost.")] = None,
    since: Annotated[str | None, _option("Started then or later: 2026-01-31, or an age (7d).")] = None,
    until: Annotated[str | None, _option("Started before: 2026-02-28, or an age (1d).")] = None,
    after: Annotated[
        str | None, _option("Only runs after this one: continue an export.", metavar="RUN")
    ] = None,
    min_supported: Annotated[
        float | None, _option("The least share of claims that their sources support.", min=0, max=1)
    ] = None,
    min_coverage: Annotated[
        float | None, _option("The least share of the input that was read.", min=0, max=1)
    ] = None,
    cost_up_to: Annotated[
        float | None, _option("The most that a run may have cost, in dollars.", min=0)
    ] = None,
    golds: Annotated[
        Path | None,
        typer.Option(
            help="JSON Lines with id (a run's name, or its question) and answer: `correct` is a reward then.",
            show_default=False,
        ),
    ] = None,
    rule: Annotated[
        Literal["exact", "contains", "number", "f1"],
        typer.Option(help="How an answer is compared with its gold."),
    ] = "exact",
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            help="The file to write, readable by you only.",
            show_default="stdout",
            callback=check_out,
        ),
    ] = None,
    store: StoreOption = None,
) -> None:
    """Export runs as lines of JSON: their events, or their conversations with models.

    A line of events has run_id, seq, at (Unix seconds), kind and data. For the other formats each run is
    replayed offline, which calls no model. They have one line for each window of a root and for each child.
    With --all the oldest run is first, and a run that can't be replayed is skipped, with a line on stderr.
    The export contains text of your documents, but no API key.

    \b
    Examples:
      rlm export 20260131-142501 --out run.jsonl
      rlm export --all --format sft --min-supported 0.9 --out examples.jsonl
      rlm export --all --format messages --golds golds.jsonl --rule number
    """
    from rlm.replay import Golds

    given = [model_like, status, since, until, after, min_supported, min_coverage, cost_up_to]
    if (runs and all_) or (not all_ and any(one is not None for one in given)):
        raise UsageError("the options of which runs need --all, and --all takes no names of runs")
    if golds is not None and format_ != "messages":
        raise UsageError("--golds adds to rewards, which only --format messages has")
    known = None if golds is None else Golds.read(golds, rule)

    async def work(write: Callable[[_Line], object]) -> tuple[int, int, str]:
        from rlm.journal import default_store

        place = store or default_store(os.environ)
        names, selection = await _selected(
            place,
            list(runs or ["latest"]),
            all_=all_,
            model=model_like,
            status=status,
            since=None if since is None else _instant(since),
            until=None if until is None else _instant(until),
            after=after,
            min_supported=min_supported,
            min_coverage=min_coverage,
            max_cost_usd=cost_up_to,
        )
        lines = read = 0
        for name in names:
            found = (
                _events(name, place, selection)
                if format_ == "events"
                else _lines(name, place, format_, selection, known)
            )
            try:
                before = lines
                async for line in found:
                    write(line)
                    lines += 1
                read += lines > before
            except RLMError as error:
                if not all_:
                    raise
                say(f"skipped {name}: {error}")
        return lines, read, names[0] if len(names) == 1 else plural(read, "run")

    kind = {"events": "event", "messages": "conversation", "sft": "example"}[format_]
    target = nullcontext(None) if out is None else open_output(out, private=True)
    with target as file:

        def write(line: _Line) -> None:
            if file is None:
                typer.echo(json_bytes(line))
            else:
                file.write(json_bytes(line) + b"\n")

        lines, _, source = run_interruptible(work(write))
    if out is not None:
        typer.echo(f"wrote {plural(lines, kind)} of {source} to {out}", err=True)


async def _selected(
    store: str | Path, runs: list[str], *, all_: bool, after: str | None, **conditions: Any
) -> tuple[list[str], Selection]:
    """Return the full names of the runs to export, in order, and the conditions that they must meet."""
    from rlm.journal import Journal
    from rlm.replay import Selection

    async with Journal.open(store) as journal:
        if not all_:
            return list(dict.fromkeys([await journal.resolve(run) for run in runs])), Selection()
        begin = None
        if after is not None:
            last = await journal.get(await journal.resolve(after))
            begin = (last.started_at, last.run_id)
        selection = Selection(after=begin, **conditions)
        return await selection.runs(journal), selection


async def _events(run: str, store: str | Path, selection: Selection) -> AsyncIterator[_Line]:
    from rlm.journal import Journal
    from rlm.replay import Reward
    from rlm.runs.stored_run import StoredRun

    async with Journal.open(store) as journal:
        if selection.has_bounds:
            stored = await StoredRun.read(journal, run)
            if stored.result is None or not selection.accepts(Reward.of(stored.result, stored.events)):
                return
        for event in await journal.events(run):
            yield asdict(event)


async def _lines(
    run: str, store: str | Path, format_: Format, selection: Selection, golds: Golds | None
) -> AsyncIterator[_Line]:
    from rlm.replay import read_conversations
    from rlm.settings import Settings

    found = await read_conversations(run, store=store, settings=Settings(), golds=golds, selection=selection)
    left = 0
    for one in found:
        line = one.to_json() if format_ == "messages" else one.to_example()
        if line is None:
            left += 1
        else:
            yield line
    if left:
        say(
            f"left out {plural(left, 'conversation')} of {run}: without an answer of the run, "
            "without a block, or with pictures"
        )


def _instant(given: str) -> float:
    """Return the Unix seconds of a date, a time, or an age such as `7d`. Raises UsageError."""
    try:
        return datetime.fromisoformat(given.strip()).timestamp()
    except ValueError:
        pass
    try:
        return time.time() - parse_age(given)
    except UsageError as error:
        raise UsageError(f"{given!r} is no date (2026-01-31) and no age (7d)") from error
