"""`rlm compare`: one question in four ways, side by side."""

from __future__ import annotations

import logging
import os
import sys
from typing import TYPE_CHECKING, Annotated

import typer

from rlm.cli import run_options as options
from rlm.cli.config import ConfigOption, settings_in_force
from rlm.cli.consent import allowed_level
from rlm.cli.exits import Exit, say
from rlm.cli.interrupts import run_interruptible
from rlm.cli.store import StoreOption
from rlm.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.tasks.comparison import Comparison, Method, MethodRow

__all__ = ["compare"]

EXAMPLES = """\b
Examples:
  rlm compare "Which clause ends the contract early?" contract.pdf
  rlm compare "Who is the supplier?" folder/ --model openai:gpt-5 --sub-model openai:gpt-5-mini --max-cost 0.5
  rlm compare "What failed?" big.log --method bm25 --method rlm --json

\b
  direct      one call over the input, or over the part of its beginning that fits
  bm25        one call over the passages that rank best for the question
  map-reduce  a child for every part, then one call over what they found
  rlm         the recursive run that rlm ask does

Every method is paid for: --max-cost and the other limits hold for each. All are kept in the journal.
"""


def compare(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="What is to be answered.", show_default=False)],
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH…", help="Files, folders, globs, or - for stdin.", show_default=False),
    ],
    method: Annotated[
        list[str] | None,
        typer.Option(
            metavar="direct|bm25|map-reduce|rlm",
            help="Only this one; may be repeated. Default: all four.",
            show_default=False,
        ),
    ] = None,
    top_k: Annotated[int, typer.Option(min=1, max=100, help="Passages for bm25.")] = 8,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out what matches, as in .gitignore; may be repeated.")
    ] = None,
    model: options.ModelName = None,
    sub_model: options.SubModel = None,
    summary_model: options.SummaryModel = None,
    max_rounds: options.MaxRounds = 30,
    max_calls: options.MaxCalls = 1_000,
    max_tokens: options.MaxTokens = 10_000_000,
    max_cost: options.MaxCost = 5.0,
    max_seconds: options.MaxSeconds = 1_800.0,
    cell_seconds: options.CellSeconds = 120.0,
    concurrency: options.Concurrency = 16,
    sandbox: options.Sandbox = "auto",
    store: StoreOption = None,
    no_cache: options.NoCache = False,
    store_mb: options.StoreMb = 2_048,
    as_json: options.Json = False,
    quiet: options.Quiet = False,
    config: ConfigOption = None,
) -> None:
    """Answer one question in several ways, side by side: do you need an RLM for it at all?"""
    from rlm.budget import Limits
    from rlm.cli.answer import json_bytes
    from rlm.documents import sources_from_arguments
    from rlm.engine import Settings
    from rlm.models import default_model
    from rlm.runtime import RLM
    from rlm.tasks.comparison import METHODS

    limits = Limits(
        rounds=max_rounds,
        sub_calls=max_calls,
        tokens=max_tokens,
        cost_usd=max_cost,
        seconds=max_seconds,
        cell_seconds=cell_seconds,
        concurrency=concurrency,
    )
    if not question.strip():
        raise UsageError("the question is empty: say what is to be answered")
    for unknown in set(method or ()) - set(METHODS):
        raise UsageError(f"--method {unknown} is none: there are {', '.join(METHODS)}")
    name = model or default_model(os.environ)
    settings = Settings(
        sandbox=allowed_level(sandbox, model_written=name != "extractive"),
        store=store,
        document_cache=not no_cache,
        store_mb=store_mb,
        facts=settings_in_force(ctx).models,
    )
    # What a run warns of is in its row.
    logging.getLogger("rlm").addHandler(logging.NullHandler())
    rlm = RLM(name, sub_model=sub_model, summary_model=summary_model, limits=limits, settings=settings)
    sources = sources_from_arguments(paths, sys.stdin.buffer, exclude=exclude or ())
    chosen = tuple(one for one in METHODS if one in method) if method else METHODS
    try:
        found = run_interruptible(_run(rlm, question, sources, chosen, top_k, quiet=quiet))
    except KeyboardInterrupt:
        say("interrupted; what was paid for is in the journal (rlm runs)")
        raise typer.Exit(Exit.INTERRUPTED) from None
    typer.echo(json_bytes(found.to_json(), indent=2) if as_json else comparison_text(found))
    if all(row.result.answer is None for row in found.rows):
        failed = all(row.result.stop_reason == "model" for row in found.rows)
        raise typer.Exit(Exit.MODEL if failed else Exit.NO_ANSWER)


compare.__doc__ = f"{compare.__doc__}\n\n{EXAMPLES}"


async def _run(
    rlm: RLM, question: str, sources: Sequence[Source], methods: Sequence[Method], top_k: int, *, quiet: bool
) -> Comparison:
    from rlm.tasks.compare import compare as compared

    def told(method: Method) -> None:
        if not quiet:
            typer.echo(f"asking by {method}", err=True)

    try:
        return await compared(rlm, question, sources, methods=methods, top_k=top_k, told=told)
    finally:
        await rlm.aclose()


def comparison_text(found: Comparison) -> str:
    """The table, every answer with its sources, and the advice."""
    from rlm.cli.answer import answer_text, printable

    header = ("", "citations", "calls", "tokens in", "out", "cost", "seconds", "read")
    table = [header, *(_cells(row) for row in found.rows)]
    widths = [max(len(row[column]) for row in table) for column in range(len(header))]
    lines = [
        "  ".join(cell.ljust(width) if not n else cell.rjust(width) for n, (cell, width) in enumerate(both))
        for both in (list(zip(row, widths, strict=True)) for row in table)
    ]
    parts = ["\n".join(lines)]
    for row in found.rows:
        note = f" ({printable(' '.join(row.note.split()))})" if row.note else ""
        shown = "no answer" if row.result.answer is None else answer_text(row.result)
        parts.append(f"{row.method}{note}\n{shown}")
    return "\n\n".join([*parts, found.advice])


def _cells(row: MethodRow) -> tuple[str, ...]:
    from rlm.cli.answer import dollars, share

    coverage = row.result.coverage
    return (
        row.method,
        f"{row.verified} of {len(row.citations)}" if row.result.answer is not None else "no answer",
        f"{row.calls:,}",
        f"{row.input_tokens:,}",
        f"{row.output_tokens:,}",
        "unknown" if row.cost_usd is None else dollars(row.cost_usd),
        f"{row.result.seconds:.1f}",
        share(max(coverage.answered_chars, coverage.read_chars), coverage.input_chars),
    )
