"""`rlm runs`: list and remove the runs in the journal."""

from __future__ import annotations

import re
import shutil
import sys
import time
from dataclasses import asdict, fields
from datetime import datetime
from typing import Annotated, Any

import typer

from rlm.cli.commands.waiting import waiting
from rlm.cli.console.render_result import dollars, plural
from rlm.cli.options import Options, takes
from rlm.cli.store import with_journal
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_text
from rlm.journal import Journal
from rlm.results import RunTotals
from rlm.settings_table import JOURNAL

__all__ = ["runs_app"]

_MAX_TASK_CHARS = 60
_WIDE = 120
"""Columns of a terminal that shows all totals. A narrower one shows a line of state, cost and question."""
_NOUNS = {"rounds": ("round", "rounds"), "sub_calls": ("child", "children")}
_WIDTHS = {"rounds": 3, "sub_calls": 5}
_LISTED_FIELDS = (
    "run_id",
    "task",
    "state",
    "stop_reason",
    "started_at",
    *(field.name for field in fields(RunTotals)),
)

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
    async def read(journal: Journal) -> list[dict[str, Any]]:
        return [
            {
                key: value
                for key, value in {**asdict(run), **asdict(run.totals)}.items()
                if key in _LISTED_FIELDS
            }
            for run in await journal.runs(limit)
        ]

    found = with_journal(store, read)
    if as_json:
        typer.echo(json_bytes(found, indent=2))
        return
    if not found:
        typer.echo("no runs yet", err=True)
    columns = shutil.get_terminal_size().columns if sys.stdout.isatty() else _WIDE
    for run in found:
        task = " ".join(str(run["task"]).split())
        state = run["stop_reason"] or run["state"]
        if columns < _WIDE:
            cost = "-" if run["cost_usd"] is None else dollars(run["cost_usd"])
            line = terminal_text(f"{run['run_id']}  {state:<12} {cost:>8}  {task}")
            typer.echo(line if len(line) <= columns else f"{line[: columns - 1]}…")
            continue
        preview = task if len(task) <= _MAX_TASK_CHARS else task[: _MAX_TASK_CHARS - 1] + "…"
        started = datetime.fromtimestamp(run["started_at"]).strftime("%Y-%m-%d %H:%M")
        typer.echo(terminal_text(f"{run['run_id']}  {started}  {state:<18} {_totals_text(run)}  {preview}"))


def _totals_text(run: dict[str, Any]) -> str:
    """Return the totals of a run in columns. A new field of RunTotals becomes a column by itself."""
    columns = []
    for total in fields(RunTotals):
        value = run[total.name]
        if total.name == "cost_usd":
            columns.append(f"{'-' if value is None else dollars(value):>8}")
        else:
            one, many = _NOUNS.get(total.name, (total.name, total.name))
            columns.append(
                f"{value:>{_WIDTHS.get(total.name, 9)}} {one if value == 1 else many:<{len(many)}}"
            )
    return " ".join(columns)


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
