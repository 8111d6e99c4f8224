"""`rlm runs waiting`: the batches of slow runs that wait at a provider."""

from __future__ import annotations

import asyncio
import os
import time
from collections.abc import Iterable
from dataclasses import asdict
from typing import Annotated

import typer

from rlm.cli.options import Options, takes
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_text
from rlm.journal import default_store
from rlm.journal.provider_batches import BatchLedger, BatchRecord
from rlm.models import resolve
from rlm.models.http.batches import batch_api_of
from rlm.settings_table import JOURNAL
from rlm.status import plural

__all__ = ["waiting"]


@takes(JOURNAL, "json")
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
    *,
    options: Options,
) -> None:
    """List the batches of slow runs that wait at a provider, or cancel one.

    What was answered before a batch is cancelled is charged, and a resume collects it.

    \b
    Examples:
      rlm runs waiting
      rlm runs waiting --cancel msgbatch_01HkcTjaV5uDC8jWR4ZsDV8d
    """
    if cancel is not None and forget is not None:
        raise UsageError("--cancel cannot be combined with --forget: leave one out")
    ledger = BatchLedger(options.store or default_store(os.environ))
    batches = asyncio.run(ledger.batches())
    if cancel is not None:
        asyncio.run(_cancel(_find(batches, cancel)))
        typer.echo(f"cancelled {cancel}: rlm resume collects what was answered before", err=True)
    elif forget is not None:
        asyncio.run(ledger.remove(_find(batches, forget).provider_id))
        typer.echo(f"forgot {forget}: its calls are sent again", err=True)
    else:
        _print(
            {record: runs for record, runs in batches.items() if record.state != "ended"},
            as_json=options.json,
        )


def _print(batches: dict[BatchRecord, list[str]], *, as_json: bool) -> None:
    if as_json:
        rows = [{**asdict(record), "runs": runs} for record, runs in batches.items()]
        typer.echo(json_bytes(rows, indent=2))
        return
    if not batches:
        typer.echo("nothing waits at a provider", err=True)
    for record, runs in batches.items():
        minutes = int((time.time() - record.sent_at) // 60)
        shown = runs[0] if len(runs) == 1 else plural(len(runs), "run")
        calls = plural(record.requests, "call")
        line = f"{record.provider_id}  {record.model}  {calls}, since {minutes:,} min  {shown}"
        typer.echo(terminal_text(line))


def _find(batches: Iterable[BatchRecord], name: str) -> BatchRecord:
    """Return the batch with this id of the provider. Raises UsageError."""
    for record in batches:
        if name == record.provider_id:
            return record
    raise UsageError(f"this store knows no batch {name!r}: see rlm runs waiting")


async def _cancel(record: BatchRecord) -> None:
    model = resolve(record.model, os.environ)
    try:
        failure = await batch_api_of(model).cancel(record.provider_id)
    finally:
        await model.aclose()
    if failure is not None:
        raise failure.final(1, 0.0)
