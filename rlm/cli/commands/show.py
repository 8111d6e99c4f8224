"""`rlm show`: the events of one run."""

from __future__ import annotations

from dataclasses import asdict

import typer

from rlm.cli.console.run_view import RunView
from rlm.cli.options import Options, takes
from rlm.cli.store import RunArgument, with_journal
from rlm.escaping import json_bytes
from rlm.journal import Journal, JournalEvent
from rlm.journal.checks import damage_reported
from rlm.settings_table import JOURNAL

__all__ = ["events_of", "show"]


@takes(JOURNAL, "json", "verbose")
def show(
    run: RunArgument = "latest",
    *,
    options: Options,
) -> None:
    """Show the rounds, children and answer of a run. The default is the newest one.

    \b
    Examples:
      rlm show
      rlm show 20260131-142501 -v
    """

    events = with_journal(options.store, lambda journal: events_of(journal, run))
    if options.json:
        for event in events:
            typer.echo(json_bytes(asdict(event)))
    else:
        with damage_reported(run):
            RunView(full=options.verbose).show(events)


async def events_of(journal: Journal, run: str) -> tuple[JournalEvent, ...]:
    """Return the events of the run with this name, its first characters, or `latest`."""
    return await journal.events(await journal.resolve(run))
