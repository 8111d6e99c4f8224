"""`rlm show`: the events of one run."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.store import RunArgument, StoreOption, with_journal
from rlm.escaping import json_bytes

if TYPE_CHECKING:
    from rlm.journal import Journal, JournalEvent

__all__ = ["events_of", "show"]


def show(
    run: RunArgument = "latest",
    *,
    full: Annotated[bool, typer.Option("--full", help="Show all of the code, output and children.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the events as JSON, one a line.")] = False,
    store: StoreOption = None,
) -> None:
    """Show the rounds, children and answer of a run. The default is the newest one.

    \b
    Examples:
      rlm show
      rlm show 20260131-142501 --full
    """

    events = with_journal(store, lambda journal: events_of(journal, run))
    if as_json:
        for event in events:
            typer.echo(json_bytes(asdict(event)))
    else:
        from rlm.cli.console.run_view import RunView
        from rlm.journal.checks import damage_reported

        with damage_reported(run):
            RunView(full=full).show(events)


async def events_of(journal: Journal, run: str) -> tuple[JournalEvent, ...]:
    """Return the events of the run with this name, its first characters, or `latest`."""
    return await journal.events(await journal.resolve(run))
