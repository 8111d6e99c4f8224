"""`rlm batch`: many runs, from a file of tasks to a file of results."""

from __future__ import annotations

import logging
import os
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.options import RunOptions, takes_run_options
from rlm.errors import ConfigurationError

if TYPE_CHECKING:
    from rlm.batch import Batch, BatchEngine, BatchSummary, TasksFile
    from rlm.events import Observer
    from rlm.runtime import RLM

__all__ = ["batch"]

_FIRST_PROMPT = 4_000
"""Tokens of the shortest prompt that a run begins with, or hardly more."""

EXAMPLES = """\b
Examples:
  rlm batch tasks.jsonl --out results.jsonl
  rlm batch tasks.jsonl --out results.jsonl --jobs 32 --budget 20 --max-cost 0.10
  rlm batch tasks.jsonl --out results.jsonl --engine ray --store postgresql://rlm@db/rlm --address auto

\b
A line of TASKS.jsonl:
  {"id": "a1", "task": "Who signs?", "context": ["contracts/a1.pdf"], "limits": {"cost_usd": 0.2}}
  {"id": "a2", "task": "How many words?", "context": [{"text": "one two"}], "schema": {"type": "integer"}}

Paths are looked for from the current folder. Every task gets one line in the results, as it ends: its id,
the fields of a run's result, and `error`. Interrupted or killed, the same command goes on: what is done is
not run again, what was half done goes on where it was, and tasks that failed (a missing file, a provider that
did not answer, an empty budget) are tried again. Exit code 1 when a task has no answer.
"""


@takes_run_options(
    each="each task",
    refused={"schema": "a task has its own, in its line", "exclude": "a task names its files, in its line"},
)
def batch(
    ctx: typer.Context,
    tasks: Annotated[
        Path, typer.Argument(metavar="TASKS.jsonl", help="One task a line.", show_default=False)
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="R.jsonl", help="The results, one line a task.", show_default=False
        ),
    ],
    engine: Annotated[
        Literal["local", "ray"], typer.Option(help="This process, or a Ray cluster (an extra).")
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="The Ray cluster; auto is the one this machine is part of. Default: a local one."),
    ] = None,
    workers: Annotated[
        int | None, typer.Option(min=1, help="Ray workers. Default: one for each CPU of the cluster.")
    ] = None,
    jobs: Annotated[
        int, typer.Option("--jobs", "-j", min=1, help="Tasks at a time; with Ray, on each worker.")
    ] = 8,
    budget: Annotated[
        float | None,
        typer.Option(min=0.0, help="US dollars for the whole batch, earlier starts of it included."),
    ] = None,
    skip_bad: Annotated[
        bool, typer.Option("--skip-bad", help="Run the others when lines are no tasks; these get an error.")
    ] = False,
    *,
    given: RunOptions,
) -> None:
    """Run many tasks, and write one line for each, whatever happens in between."""
    from rlm.batch import Batch, BatchBudget, LocalEngine, ResultsFile, RunModels, TasksFile, unfinished_costs
    from rlm.cli.console.batch_progress import BatchDisplay, summary_table
    from rlm.journal import default_store, new_run_id
    from rlm.trace import TraceFile

    for flag, value in (("--address", address), ("--workers", workers)):
        if value is not None and engine != "ray":
            raise ConfigurationError(f"{flag} is of a Ray cluster: give --engine ray too, or leave it out")
    models = RunModels(given.model_name, given.sub_model, given.summary_model)
    journal = str(given.store or default_store(os.environ))
    limits, settings = given.limits(), replace(given.settings(ctx), store=journal)
    # What a run warns of is in its line: the log's last resort would print it among the progress.
    logging.getLogger("rlm").addHandler(logging.NullHandler())
    with ExitStack() as stack:
        file = stack.enter_context(TasksFile.open(tasks, skip_bad=skip_bad))
        display = stack.enter_context(BatchDisplay(quiet=given.quiet, budget=budget))
        observers: list[Observer] = [display.on_event]
        if given.trace is not None:
            observers.append(stack.enter_context(TraceFile(given.trace)).on_event)
        rlm = models.rlm(limits, settings, observers)
        floor = _floor(rlm, budget)
        if given.dry_run:
            _print_plan(run_interruptible(_planned(rlm, file)), as_json=given.as_json)
            return
        facts = {"model": rlm.model.name, "sub_model": rlm.sub_model.name}
        results = stack.enter_context(ResultsFile.open(out, new_run_id(), facts))
        if not results.is_new:
            display.note(
                f"going on with batch {results.batch}: {len(results.done):,} of {len(file.places):,} are done"
            )
        chosen: BatchEngine
        if engine == "ray":
            from rlm.batch.ray import ray_engine

            cluster = ray_engine(
                models, limits, settings, address=address, workers=workers, jobs=jobs, told=display.note
            )
            chosen = stack.enter_context(cluster)
        else:
            chosen = LocalEngine(rlm, slots=jobs)
        try:
            before: dict[str, float] = {}
            if budget is not None and not results.is_new:
                before = run_interruptible(unfinished_costs(journal, results.batch))
            spent = results.summary.cost_usd + sum(before.values())
            ledger = BatchBudget(budget, slots=chosen.slots, floor=floor, spent=spent)
            work = Batch(file, results, limits=limits, budget=ledger, told=display.line, before=before)
            summary = run_interruptible(_run(work, chosen))
        except KeyboardInterrupt:
            display.close()
            say(f"interrupted: {len(results.done):,} lines are in {out}; the same command goes on")
            raise typer.Exit(Exit.INTERRUPTED) from None
    _leave(summary, as_json=given.as_json, quiet=given.quiet, table=summary_table(summary))


batch.__doc__ = f"{batch.__doc__}\n\n{EXAMPLES}"


async def _run(work: Batch, engine: BatchEngine) -> BatchSummary:
    async with engine:
        return await work.run(engine)


def _floor(rlm: RLM, budget: float | None) -> float:
    """What a run needs to begin: its first call, and the last one, which it holds back. Raises
    ConfigurationError where a budget can't be held."""
    if budget is None:
        return 0.0
    from rlm.models.catalog.prices import Prices

    prices = Prices(rlm.settings.facts)
    costs = []
    for model in (rlm.model, rlm.sub_model, rlm.summary_model):
        cost = prices.at_most(model, _FIRST_PROMPT, min(rlm.settings.root.output_tokens, model.window.output))
        if cost is None:
            raise ConfigurationError(
                f"--budget can't be held: the price of {model.name} is not known; put it into rlm.toml as "
                f'[models."{model.name}"] with input_price and output_price, or leave --budget out'
            )
        costs.append(cost)
    return costs[0] if rlm.settings.strategy == "direct" else 2 * costs[0]


async def _planned(rlm: RLM, file: TasksFile) -> dict[str, Any]:
    """What all tasks would take together."""
    plans = [await rlm.plan(file.read(place).sources()) for place in file.places]
    costs = [plan.cost_usd for plan in plans]
    return {
        "tasks": len(plans),
        "bad": len(file.bad),
        "direct": sum(plan.strategy == "direct" for plan in plans),
        "chars": sum(plan.chars for plan in plans),
        "calls": sum(plan.calls for plan in plans),
        "tokens": sum(plan.tokens for plan in plans),
        "cost_usd": None if None in costs else round(sum(cost or 0.0 for cost in costs), 4),
    }


def _print_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    from rlm.cli.console.render_result import dollars, json_bytes

    if as_json:
        typer.echo(json_bytes(plan, indent=2))
        return
    cost = "cost unknown" if plan["cost_usd"] is None else dollars(plan["cost_usd"])
    typer.echo(
        f"{plan['tasks']:,} tasks ({plan['direct']:,} by one call), {plan['chars']:,} characters\n"
        f"about {plan['calls']:,} calls, {plan['tokens']:,} tokens, {cost} at most, if every part "
        "is read once\n"
        "nothing was spent"
    )


def _leave(summary: BatchSummary, *, as_json: bool, quiet: bool, table: str) -> None:
    """Print what it came to. Raises typer.Exit when a task has no answer."""
    from rlm.cli.console.render_result import json_bytes

    if as_json:
        typer.echo(json_bytes(summary.to_json(), indent=2))
    if not quiet:
        typer.echo(table, err=True)
    if summary.answered < summary.tasks:
        raise typer.Exit(Exit.NO_ANSWER)
