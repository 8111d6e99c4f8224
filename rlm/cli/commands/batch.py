"""`rlm batch`: a run for each task of a file, and a file of results."""

from __future__ import annotations

import hashlib
import json
import logging
import os
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.console.outcome import say_left
from rlm.cli.options import Options, takes
from rlm.errors import ConfigurationError
from rlm.settings_table import INPUT, JOURNAL, LIMITS, MODELS, OUTPUT, RUN

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping

    from rlm.batch.results import BatchSummary
    from rlm.batch.tasks import TasksFile
    from rlm.cli.console.batch_progress import BatchDisplay
    from rlm.documents import Source
    from rlm.events import Observer
    from rlm.runtime import RLM

__all__ = ["batch"]

_FIRST_PROMPT = 4_000
"""Tokens of the shortest first prompt of a run, about."""

_JOBS, _SLOW_JOBS = 8, 64
"""Tasks in parallel. Slow ones wait for hours, and a batch of a provider holds the calls of all of them."""

EXAMPLES = """\b
Examples:
  rlm batch tasks.jsonl --out results.jsonl
  rlm batch tasks.jsonl --out results.jsonl --jobs 32 --budget 20 --max-cost 0.10
  rlm batch tasks.jsonl --out results.jsonl --slow --budget 10
  rlm batch tasks.jsonl --out results.jsonl --engine ray --store postgresql://rlm@db/rlm --address auto

\b
A line of TASKS.jsonl:
  {"id": "a1", "task": "Who signs?", "context": ["contracts/a1.pdf"], "limits": {"max_cost": 0.2}}
  {"id": "a2", "task": "How many words?", "context": [{"text": "one two"}], "schema": {"type": "integer"}}

Paths are relative to the current folder. Each task gets one line in the results when it ends: its id, the
fields of a run's result, and `error`. If the command is interrupted or killed, the same command resumes the
batch: it keeps finished tasks, resumes unfinished ones, and retries failed ones (a missing file, a provider
that did not answer, an empty budget). The exit code is 1 if a task has no answer.
"""


@takes(
    MODELS,
    INPUT,
    RUN,
    LIMITS,
    OUTPUT,
    JOURNAL,
    without=("exclude", "allow_host", "verbose"),
)
def batch(
    tasks: Annotated[
        Path,
        typer.Argument(metavar="TASKS.jsonl", help="The tasks, one JSON object a line.", show_default=False),
    ],
    out: Annotated[
        Path,
        typer.Option(
            "--out", "-o", metavar="R.jsonl", help="The results, one line a task.", show_default=False
        ),
    ],
    engine: Annotated[
        Literal["local", "ray"],
        typer.Option(help="local: this process; ray: a Ray cluster (needs the extra `ray`)."),
    ] = "local",
    address: Annotated[
        str | None,
        typer.Option(help="The Ray cluster; auto: the one this machine belongs to. Default: a local one."),
    ] = None,
    workers: Annotated[
        int | None,
        typer.Option(min=1, help="Number of Ray workers. Default: one for each CPU of the cluster."),
    ] = None,
    jobs: Annotated[
        int | None,
        typer.Option(
            "--jobs",
            "-j",
            min=1,
            help="Tasks in parallel; with Ray, on each worker. Default: 8, with --slow 64.",
        ),
    ] = None,
    budget: Annotated[
        float | None,
        typer.Option(min=0.0, help="US dollars for the whole batch, including earlier starts."),
    ] = None,
    skip_bad: Annotated[
        bool,
        typer.Option(
            "--skip-bad", help="Report invalid lines as errors in the results, and run the other tasks."
        ),
    ] = False,
    *,
    options: Options,
) -> None:
    """Run many tasks, with one line of results for each. The same command resumes a batch."""
    from rlm.batch.batch import local_engine, run_batch
    from rlm.batch.results import ResultsFile
    from rlm.batch.tasks import TasksFile
    from rlm.cli.console.batch_progress import BatchDisplay, summary_table
    from rlm.cli.telemetry import start_telemetry
    from rlm.journal import default_store, new_run_id
    from rlm.runtime import RLM
    from rlm.status import plural
    from rlm.trace import TraceFile

    _refuse_cluster_options(engine, {"--address": address, "--workers": workers})
    jobs = jobs or (_SLOW_JOBS if options.slow else _JOBS)
    store = str(options.store or default_store(os.environ))
    if "://" not in store:
        store = str(Path(store).expanduser().absolute())
    arguments = options.arguments(replace(options.settings(), store=store))
    # Each worker of a cluster has an environment of its own, and so perhaps another default.
    make_rlm = partial(RLM, **{**arguments, "model": options.model_name})
    # The warnings of a run are in its line; without a handler, logging would print them into the progress.
    logging.getLogger("rlm").addHandler(logging.NullHandler())
    with ExitStack() as stack:
        file = stack.enter_context(TasksFile.open(tasks, skip_bad=skip_bad))
        display = stack.enter_context(BatchDisplay(quiet=options.quiet, budget=budget))
        observers: list[Observer] = [display.on_event]
        if options.trace is not None:
            observers.append(stack.enter_context(TraceFile(Path(options.trace))).on_event)
        start_telemetry()
        rlm = make_rlm(observe=observers)
        floor = _floor(rlm, budget)
        if options.dry_run:
            _print_plan(run_interruptible(_plan(rlm, file)), as_json=options.json)
            return
        facts = {
            "model": rlm.model.name,
            "sub_model": ", ".join(model.name for model in rlm.sub_models.values()),
        }
        results = stack.enter_context(ResultsFile.open(out, new_run_id(), facts))
        if not results.is_new:
            display.note(
                f"resuming batch {results.batch}: {len(results.done):,} of "
                f"{plural(len(file.tasks), 'task')} done"
            )
        if engine == "local":
            slots, opened = jobs, local_engine(rlm, jobs)
        else:
            from rlm.batch.ray import cluster, ray_engine

            ray, cpus = stack.enter_context(cluster(address, store))
            workers = workers or cpus
            slots = workers * jobs
            opened = ray_engine(ray, make_rlm, workers=workers, slots=jobs, notify=display.note)

        async def run() -> BatchSummary:
            async with opened as run_task:
                return await run_batch(
                    file,
                    results,
                    run_task,
                    slots=slots,
                    limits=options.limits,
                    store=store,
                    budget=budget,
                    floor=floor,
                    on_progress=display.show_summary,
                )

        try:
            summary = run_interruptible(run())
        except KeyboardInterrupt:
            display.close()
            _say_interrupted(f"{plural(len(results.done), 'line')} in {out}", display)
            raise typer.Exit(Exit.INTERRUPTED) from None
    _leave(summary, as_json=options.json, quiet=options.quiet, table=summary_table(summary))


batch.__doc__ = f"{batch.__doc__}\n\n{EXAMPLES}"


def _refuse_cluster_options(engine: str, given: Mapping[str, object]) -> None:
    for flag, value in given.items():
        if value is not None and engine != "ray":
            raise ConfigurationError(f"{flag} needs a Ray cluster: add --engine ray, or leave it out")


def _say_interrupted(written: str, display: BatchDisplay) -> None:
    say(f"interrupted; {written}; the same command resumes the batch")
    say_left(display.waiting)


def _floor(rlm: RLM, budget: float | None) -> float:
    """Return what a run needs to start: its first call and the last one, which it keeps in reserve.

    Raises ConfigurationError if a price is unknown, because the budget could not be enforced.
    """
    if budget is None:
        return 0.0
    from rlm.models.catalog.info import Prices

    prices = Prices(rlm.settings.facts)
    costs = []
    for model in (rlm.model, *rlm.sub_models.values(), rlm.summary_model):
        cost = prices.at_most(model, _FIRST_PROMPT, min(rlm.settings.root.output_tokens, model.window.output))
        if cost is None:
            raise ConfigurationError(
                f"--budget cannot be enforced: the price of {model.name} is unknown; put it into rlm.toml as "
                f'[models."{model.name}"] with input_price and output_price, or leave --budget out'
            )
        costs.append(cost)
    return costs[0] if rlm.settings.strategy == "direct" else 2 * costs[0]


async def _plan(rlm: RLM, file: TasksFile) -> dict[str, Any]:
    """Return what all tasks together would take."""
    tasks: dict[bytes, int] = {}
    """The number of tasks by the hash of their context: tasks about the same documents share a plan."""

    def contexts() -> Iterator[tuple[Source, ...]]:
        for task in file:
            key = hashlib.sha256(json.dumps(task.context).encode()).digest()
            tasks[key] = tasks.get(key, 0) + 1
            if tasks[key] == 1:
                yield task.sources()

    plans = list(zip(await rlm.plan_each(contexts()), tasks.values(), strict=True))
    costs = [None if plan.cost_usd is None else plan.cost_usd * count for plan, count in plans]
    return {
        "tasks": len(file.tasks),
        "bad": len(file.bad),
        "direct": sum(count for plan, count in plans if plan.strategy == "direct"),
        "chars": sum(plan.chars * count for plan, count in plans),
        "calls": sum(plan.calls * count for plan, count in plans),
        "tokens": sum(plan.tokens * count for plan, count in plans),
        "cost_usd": None if None in costs else round(sum(cost or 0.0 for cost in costs), 4),
    }


def _print_plan(plan: dict[str, Any], *, as_json: bool) -> None:
    from rlm.escaping import json_bytes
    from rlm.status import dollars, plural

    if as_json:
        typer.echo(json_bytes(plan, indent=2))
        return
    cost = "cost unknown" if plan["cost_usd"] is None else dollars(plan["cost_usd"])
    typer.echo(
        f"{plural(plan['tasks'], 'task')} ({plan['direct']:,} by one call), {plan['chars']:,} characters\n"
        f"about {plural(plan['calls'], 'call')}, {plan['tokens']:,} tokens, {cost} (if children "
        "read every part once)\n"
        "nothing was spent"
    )


def _leave(summary: BatchSummary, *, as_json: bool, quiet: bool, table: str) -> None:
    """Print the summary. Raises typer.Exit if a task has no answer."""
    from rlm.escaping import json_bytes

    if as_json:
        typer.echo(json_bytes(summary.to_json(), indent=2))
    if not quiet:
        typer.echo(table, err=True)
    if summary.answered < summary.tasks:
        raise typer.Exit(Exit.NO_ANSWER)
