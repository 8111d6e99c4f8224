"""`rlm export`: the events of runs, or their conversations with models."""

from __future__ import annotations

import os
from collections.abc import AsyncIterator, Callable
from contextlib import nullcontext
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.out import check_out, open_output
from rlm.cli.options import Options, takes
from rlm.escaping import json_bytes
from rlm.journal import Journal, default_store
from rlm.replay import read_conversations
from rlm.settings_table import JOURNAL
from rlm.status import plural

__all__ = ["export"]

Format = Literal["events", "messages"]
_Line = dict[str, Any]


@takes(JOURNAL)
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
    format_: Annotated[
        Format,
        typer.Option(
            "--format", "-f", help="events of the journal; messages: each conversation with a model."
        ),
    ] = "events",
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
    *,
    options: Options,
) -> None:
    """Export runs as lines of JSON: their events, or their conversations with models.

    A line of events has run_id, seq, at (Unix seconds), kind and data. For messages each run is replayed
    offline, which calls no model. They have one line for each window of a root and for each child. The export
    contains text of your documents, but no API key.

    \b
    Examples:
      rlm export 20260131-142501 --out run.jsonl
      rlm export latest latest~1 --format messages
    """

    async def work(write: Callable[[_Line], object]) -> tuple[int, str]:
        place = options.store or default_store(os.environ)
        async with Journal.open(place) as journal:
            names = list(dict.fromkeys([await journal.resolve(run) for run in runs or ["latest"]]))
        lines = 0
        for name in names:
            async for line in _events(name, place) if format_ == "events" else _messages(name, place):
                write(line)
                lines += 1
        return lines, names[0] if len(names) == 1 else plural(len(names), "run")

    target = nullcontext(None) if out is None else open_output(out, private=True)
    with target as file:

        def write(line: _Line) -> None:
            if file is None:
                typer.echo(json_bytes(line))
            else:
                file.write(json_bytes(line) + b"\n")

        lines, source = run_interruptible(work(write))
    if out is not None:
        kind = {"events": "event", "messages": "conversation"}[format_]
        typer.echo(f"wrote {plural(lines, kind)} of {source} to {out}", err=True)


async def _events(run: str, store: str | Path) -> AsyncIterator[_Line]:
    async with Journal.open(store) as journal:
        for event in await journal.events(run):
            yield asdict(event)


async def _messages(run: str, store: str | Path) -> AsyncIterator[_Line]:
    for one in await read_conversations(run, store=store):
        yield one.to_json()
