"""`rlm runs waiting`: the batches of slow runs that wait at a provider."""

from __future__ import annotations

import asyncio
import os
import time
from dataclasses import asdict
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli.console.render_result import plural
from rlm.cli.store import StoreOption
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_text

if TYPE_CHECKING:
    from rlm.journal.provider_batches import BatchLedger, BatchRecord

__all__ = ["waiting"]

_MINUTE = 60


def waiting(
    cancel: Annotated[
        str | None,
        typer.Option(metavar="ID", help="Cancel a batch at the provider.", show_default=False),
    ] = None,
    forget: Annotated[
        str | None,
        typer.Option(
            metavar="ID",
            help="Forget a batch that the provider no longer has. Its calls are sent and paid again.",
            show_default=False,
        ),
    ] = None,
    as_json: Annotated[bool, typer.Option("--json", help="Print JSON.")] = False,
    store: StoreOption = None,
) -> None:
    """List the batches of slow runs that wait at a provider, or cancel one.

    What was answered before a batch is cancelled is charged, and a resume collects it.

    \b
    Examples:
      rlm runs waiting
      rlm runs waiting --cancel msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d
    """
    from rlm.journal import default_store
    from rlm.journal.provider_batches import BatchLedger

    if cancel is not None and forget is not None:
        raise UsageError("--cancel cannot be combined with --forget: leave one out")
    ledger = BatchLedger(store or default_store(os.environ))
    if cancel is not None:
        record = asyncio.run(_find(ledger, cancel))
        asyncio.run(_cancel(record))
        typer.echo(f"cancelled {cancel}: rlm resume collects what was answered before", err=True)
    elif forget is not None:
        record = asyncio.run(_find(ledger, forget))
        asyncio.run(ledger.remove(record.batch))
        typer.echo(f"forgot {forget}: its calls are sent again", err=True)
    else:
        _print(asyncio.run(_open_batches(ledger)), as_json=as_json)


async def _open_batches(ledger: BatchLedger) -> list[tuple[BatchRecord, tuple[str, ...]]]:
    """Return the batches that have not ended, with their runs."""
    waiting = [record for record in await ledger.batches() if record.state != "ended"]
    return [(record, await ledger.runs_of(record.batch)) for record in waiting]


def _print(found: list[tuple[BatchRecord, tuple[str, ...]]], *, as_json: bool) -> None:
    if as_json:
        typer.echo(json_bytes([{**asdict(record), "runs": runs} for record, runs in found], indent=2))
        return
    if not found:
        typer.echo("nothing waits at a provider", err=True)
    for record, runs in found:
        minutes = int((time.time() - record.sent_at) // _MINUTE)
        name = record.provider_id or f"{record.batch} (not confirmed)"
        shown = runs[0] if len(runs) == 1 else plural(len(runs), "run")
        calls = plural(record.requests, "call")
        typer.echo(terminal_text(f"{name}  {record.model}  {calls}, since {minutes:,} min  {shown}"))


async def _find(ledger: BatchLedger, name: str) -> BatchRecord:
    """Return the batch with this id of the provider, or of ours. Raises UsageError."""
    for record in await ledger.batches():
        if name in (record.provider_id, record.batch):
            return record
    raise UsageError(f"this store knows no batch {name!r}: see rlm runs waiting")


async def _cancel(record: BatchRecord) -> None:
    from rlm.models import resolve
    from rlm.models.batching.slow_model import batch_api_of

    if record.provider_id is None:
        raise UsageError(f"{record.batch} was not confirmed by its provider: resume its run, or --forget it")
    model = resolve(record.model, os.environ)
    try:
        failure = await batch_api_of(model).cancel(record.provider_id)
    finally:
        await model.aclose()
    if failure is not None:
        raise failure.final(1, 0.0)
