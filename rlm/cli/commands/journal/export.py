"""`rlm export`: the events of one run, or its conversations as training data."""

from __future__ import annotations

import os
from collections.abc import Iterable
from dataclasses import asdict
from pathlib import Path
from typing import Annotated, Any, Literal

import typer

from rlm.cli.commands.journal.show import events_of
from rlm.cli.console.exits import say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.out import check_out, open_output
from rlm.cli.console.render_result import plural
from rlm.cli.store import RunArgument, StoreOption, with_journal
from rlm.escaping import json_bytes

__all__ = ["export"]

Format = Literal["events", "messages", "sft"]


def export(
    run: RunArgument = "latest",
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
    """Export a run as lines of JSON: its events, or its conversations with models.

    A line of events has run_id, seq, at (Unix seconds), kind and data. For the other formats the run is
    replayed offline, which calls no model. They have one line for each window of a root and for each child.
    The export contains text of your documents, but no API key.

    \b
    Examples:
      rlm export 20260131-142501 --out run.jsonl
      rlm export 20260131-142501 --format sft --out examples.jsonl
    """
    name, lines, kind = (
        _events(run, store) if format_ == "events" else _conversations(run, store, examples=format_ == "sft")
    )
    if out is None:
        for line in lines:
            typer.echo(json_bytes(line))
        return
    with open_output(out, private=True) as file:
        file.writelines(json_bytes(line) + b"\n" for line in lines)
    typer.echo(f"wrote {plural(len(lines), kind)} of {name} to {out}", err=True)


def _events(run: str, store: str | None) -> tuple[str, list[dict[str, Any]], str]:
    events = with_journal(store, lambda journal: events_of(journal, run))
    return events[0].run_id, [asdict(event) for event in events], "event"


def _conversations(run: str, store: str | None, *, examples: bool) -> tuple[str, list[dict[str, Any]], str]:
    from rlm.journal import default_store
    from rlm.replay import read_conversations
    from rlm.runs.stored_run import StoredRun
    from rlm.settings import Settings

    stored = with_journal(store, lambda journal: StoredRun.read(journal, run))
    found = run_interruptible(
        read_conversations(stored.run_id, store=store or default_store(os.environ), settings=Settings())
    )
    if not examples:
        return stored.run_id, [one.to_json() for one in found], "conversation"
    lines = list(_present(one.to_example() for one in found))
    left = len(found) - len(lines)
    if left:
        say(
            f"left out {plural(left, 'conversation')} of {stored.run_id}: without an answer of the run, "
            "without a block, or with pictures"
        )
    return stored.run_id, lines, "example"


def _present(lines: Iterable[dict[str, Any] | None]) -> Iterable[dict[str, Any]]:
    return (line for line in lines if line is not None)
