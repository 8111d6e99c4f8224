"""`rlm runs` and `rlm show`: what the journal holds."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable, Coroutine
from dataclasses import asdict
from datetime import datetime
from typing import TYPE_CHECKING, Annotated, Any, TypeVar

import typer

from rlm.cli.answer import dollars, json_bytes, printable

if TYPE_CHECKING:
    from rlm.journal import Event, Journal

__all__ = ["runs_app", "show"]

_T = TypeVar("_T")
_TASK_SHOWN = 60
_OUTPUT_SHOWN = 1_200

StoreOption = Annotated[
    str | None,
    typer.Option(envvar="RLM_STORE", help="The journal's file.", show_default="in the state folder"),
]

runs_app = typer.Typer(invoke_without_command=True)


@runs_app.callback()
def runs(
    context: typer.Context,
    limit: Annotated[int, typer.Option("--limit", "-n", min=1, help="At most so many, newest first.")] = 20,
    as_json: Annotated[bool, typer.Option("--json", help="Print them as JSON.")] = False,
    store: StoreOption = None,
) -> None:
    """List the newest runs, or remove one.

    \b
    Examples:
      rlm runs -n 5
      rlm runs rm 20260131-142501
    """
    if context.invoked_subcommand is not None:
        return

    async def read(journal: Journal) -> list[dict[str, Any]]:
        return [
            {key: value for key, value in asdict(run).items() if key not in ("settings", "finished_at")}
            for run in await journal.runs(limit)
        ]

    found = _with_journal(store, read)
    if as_json:
        typer.echo(json_bytes(found, indent=2))
        return
    if not found:
        typer.echo("no runs yet", err=True)
    for run in found:
        task = " ".join(str(run["task"]).split())
        shown = task if len(task) <= _TASK_SHOWN else task[: _TASK_SHOWN - 1] + "…"
        cost = "-" if run["cost_usd"] is None else dollars(run["cost_usd"])
        state = run["stop_reason"] or run["state"]
        started = datetime.fromtimestamp(run["started_at"]).strftime("%Y-%m-%d %H:%M")
        typer.echo(
            printable(
                f"{run['run_id']}  {started}  {state:<18} {run['rounds']:>3} rounds {run['sub_calls']:>5} "
                f"children {cost:>8}  {shown}"
            )
        )


@runs_app.command()
def rm(
    run: Annotated[str, typer.Argument(help="The run, or the start of its name.")], store: StoreOption = None
) -> None:
    """Remove a run and the document text it holds.

    \b
    Example:
      rlm runs rm 20260131-142501
    """

    async def remove(journal: Journal) -> str:
        name = await journal.resolve(run)
        await journal.remove(name)
        return name

    typer.echo(f"removed {_with_journal(store, remove)}", err=True)


def show(
    run: Annotated[str, typer.Argument(help="The run, or the start of its name.")],
    as_json: Annotated[bool, typer.Option("--json", help="Print its events as JSON, one a line.")] = False,
    store: StoreOption = None,
) -> None:
    """Show what happened in a run: each round's code and output, children, the answer.

    \b
    Example:
      rlm show 20260131-142501
    """

    async def read(journal: Journal) -> tuple[Event, ...]:
        return await journal.events(await journal.resolve(run))

    found = _with_journal(store, read)
    for event in found:
        if as_json:
            typer.echo(json_bytes(asdict(event)))
        else:
            text = _told(event)
            if text:
                typer.echo(printable(text))


def _with_journal(store: str | None, work: Callable[[Journal], Coroutine[Any, Any, _T]]) -> _T:
    from rlm.journal import Journal, default_store

    async def whole() -> _T:
        async with Journal.open(store or default_store(os.environ)) as journal:
            return await work(journal)

    return asyncio.run(whole())


def _told(event: Event) -> str:
    data = event.data
    match event.kind:
        case "run_started":
            settings = data["settings"]
            return (
                f"task: {data['task']}\nmodel {settings['model']}, children {settings['sub_model']}, "
                f"{settings['context_chars']:,} characters in {settings['documents']:,} documents\n"
            )
        case "cell":
            result = data["result"]
            output = result["stdout"] or result["result"] or result["traceback"] or result["evalue"]
            return (
                f"round {data['round']}: {result['status']}, {result['seconds']:.2f} s\n"
                f"{_indented(data['code'])}\n  ->\n{_indented(output[:_OUTPUT_SHOWN])}\n"
            )
        case "child":
            what = data.get("error") or data.get("reply", "")
            return f"  child {data.get('spans') or ''}: {what[:200]}"
        case "compaction":
            before, after = data["tokens_before"], data["tokens_after"]
            return f"rounds 1 to {data['last_round']} folded: {before:,} tokens are {after:,} now"
        case "limit":
            return f"  limit: {data.get('message') or data.get('violation')}"
        case "warning":
            return f"  note: {data['message']}"
        case "finished":
            answer = data.get("answer")
            text = answer if isinstance(answer, str) else json.dumps(answer, ensure_ascii=False)
            return f"{data['stop_reason']}: {text}"
        case _:
            return ""


def _indented(text: str) -> str:
    return "\n".join(f"    {line}" for line in text.splitlines())
