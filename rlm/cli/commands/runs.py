"""`rlm runs`: list and remove the runs in the journal."""

from __future__ import annotations

import re
import shutil
import sys
import time
from datetime import datetime
from typing import Annotated, Any

import typer

from rlm.cli.commands.waiting import waiting
from rlm.cli.options import Options, takes
from rlm.cli.store import with_journal
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_text
from rlm.journal import Journal
from rlm.journal.events import RunSummary
from rlm.settings_table import JOURNAL
from rlm.status import RunStatus, StatusReader, dollars, plural

__all__ = ["runs_app"]

_MAX_TASK_CHARS = 60
_WIDE = 120
"""Columns of a terminal that shows all totals. A narrower one shows a line of state, cost and question."""

runs_app = typer.Typer(invoke_without_command=True)


@runs_app.callback()
@takes(JOURNAL, "json")
def runs(
    context: typer.Context,
    limit: Annotated[
        int, typer.Option("--limit", "-n", min=1, help="Maximum number of runs. Newest first.")
    ] = 20,
    *,
    options: Options,
) -> None:
    """List or remove runs. `rlm runs waiting` shows what waits at a provider.

    \b
    Examples:
      rlm runs -n 5
      rlm runs rm 20260131-142501
      rlm runs rm --older-than 30d
      rlm runs waiting
    """
    if context.invoked_subcommand is None:
        _list(limit, as_json=options.json, store=options.store)


def _list(limit: int, *, as_json: bool, store: str | None) -> None:
    async def read(journal: Journal) -> list[tuple[RunSummary, RunStatus]]:
        reader = StatusReader(journal)
        return [(run, await reader.read(run)) for run in await journal.runs(limit)]

    found = with_journal(store, read)
    if as_json:
        typer.echo(json_bytes([_facts(*both) for both in found], indent=2))
        return
    if not found:
        typer.echo("no runs yet", err=True)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    for run, status in found:
        task = " ".join(run.task.split())
        cost = f"{'-' if status.cost_usd is None else dollars(status.cost_usd):>8}"
        if columns < _WIDE:
            line = terminal_text(f"{run.run_id}  {status.state:<9} {cost}  {task}")
            typer.echo(line if len(line) <= columns else f"{line[: columns - 1]}…")
            continue
        preview = task if len(task) <= _MAX_TASK_CHARS else task[: _MAX_TASK_CHARS - 1] + "…"
        started = datetime.fromtimestamp(run.started_at).strftime("%Y-%m-%d %H:%M")
        counts = f"{plural(status.round, 'round'):>10} {plural(status.done, 'child', 'children'):>14}"
        typer.echo(terminal_text(f"{run.run_id}  {started}  {status.state:<9} {counts} {cost}  {preview}"))


def _facts(run: RunSummary, status: RunStatus) -> dict[str, Any]:
    return {
        "run_id": run.run_id,
        "task": run.task,
        "state": run.state,
        "stop_reason": run.stop_reason,
        "started_at": run.started_at,
        "rounds": status.round,
        "sub_calls": status.done,
        "cost_usd": status.cost_usd,
    }


runs_app.command(hidden=True)(waiting)  # the help of `rlm runs` names it


@runs_app.command()
@takes(JOURNAL)
def rm(
    runs: Annotated[
        list[str] | None,
        typer.Argument(metavar="RUN", help="Names of runs, or their first characters.", show_default=False),
    ] = None,
    older_than: Annotated[
        str | None,
        typer.Option(help="Runs that started before: 90m, 12h, 30d, 8w.", show_default=False),
    ] = None,
    keep: Annotated[
        int | None,
        typer.Option(min=0, help="All but this number of the newest runs.", show_default=False),
    ] = None,
    *,
    options: Options,
) -> None:
    """Remove runs with their document text and their children's answers: by name, by age or by number.

    A run in progress stays. Removed runs cannot be resumed.

    \b
    Examples:
      rlm runs rm 20260131-142501
      rlm runs rm --older-than 30d --keep 100
    """
    by_rule = older_than is not None or keep is not None
    if by_rule == bool(runs):
        raise UsageError("name runs, or select them by --older-than 30d, --keep 100, or both")
    before = None if older_than is None else time.time() - parse_age(older_than)

    async def remove(journal: Journal) -> list[str]:
        # Resolve all names first, so that a typo in the last one removes nothing.
        names = list(dict.fromkeys([await journal.resolve(run) for run in runs or ()]))
        for name in names:
            await journal.remove(name)
        return names

    if by_rule:
        removed = with_journal(options.store, lambda journal: journal.prune(keep=keep, older_than=before))
        typer.echo(f"removed {plural(len(removed), 'run')}", err=True)
        return
    for name in with_journal(options.store, remove):
        typer.echo(f"removed {name}", err=True)


def parse_age(age: str) -> float:
    """Return the seconds of an age such as `30d`. Raises UsageError."""
    match = re.fullmatch(r"(\d+)([mhdw])", age.strip())
    if match is None:
        raise UsageError(f"{age!r} is not an age. Write 90m, 12h, 30d or 8w")
    return float(match[1]) * {"m": 60, "h": 3_600, "d": 86_400, "w": 604_800}[match[2]]
