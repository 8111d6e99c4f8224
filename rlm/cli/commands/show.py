"""`rlm show`: the events of one run."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import asdict
from typing import Annotated

import typer

from rlm.cli.console.run_view import RunView
from rlm.cli.options import Options, takes
from rlm.cli.store import RunArgument, with_journal
from rlm.documents import Problem
from rlm.escaping import json_bytes, terminal_line
from rlm.journal import Journal, JournalEvent
from rlm.journal.checks import damage_reported
from rlm.runs.notes import describe
from rlm.settings_table import JOURNAL

__all__ = ["events_of", "show"]


@takes(JOURNAL, "json", "verbose")
def show(
    run: RunArgument = "latest",
    problems: Annotated[
        bool, typer.Option("--problems", help="List what was not read of the input, and why.")
    ] = False,
    *,
    options: Options,
) -> None:
    """Show the rounds, children and answer of a run. The default is the newest one.

    \b
    Examples:
      rlm show
      rlm show 20260131-142501 -v
      rlm show --problems
    """

    events = with_journal(options.store, lambda journal: events_of(journal, run))
    if problems:
        for line in _problem_lines(events, is_json=options.json):
            typer.echo(line)
    elif options.json:
        for event in events:
            typer.echo(json_bytes(asdict(event)))
    else:
        with damage_reported(run):
            RunView(full=options.verbose).show(events)


def _problem_lines(events: Sequence[JournalEvent], *, is_json: bool) -> Iterator[bytes | str]:
    """Yield a line for each document that was not read, or only in part, and for each remark about one."""
    found = [
        one for event in events if event.kind == "run_started" for one in event.data["settings"]["problems"]
    ]
    for one in found:
        yield json_bytes(one) if is_json else terminal_line(describe(Problem(**one)))
    if not found and not is_json:
        yield "Everything was read."


async def events_of(journal: Journal, run: str) -> tuple[JournalEvent, ...]:
    """Return the events of the run with this name, its first characters, or `latest`."""
    return await journal.events(await journal.resolve(run))
