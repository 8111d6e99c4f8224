"""`rlm bench`: several ways to answer the same questions with the same model, compared."""

from __future__ import annotations

from dataclasses import asdict, replace
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlm.cli.config import is_default
from rlm.cli.console.exits import Exit, say
from rlm.cli.console.interrupts import run_interruptible
from rlm.cli.options import RunOptions, takes_run_options
from rlm.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm.bench import Arm, ArmPlan, Bench, BenchEnd, BenchFolder, BenchReport, Item, Judge, Row
    from rlm.runtime import RLM
    from rlm.settings import Settings

__all__ = ["bench"]

_RUN_COST = 1.0
_STORE_MB = 1 << 30
"""No run of a bench is dropped from its journal: it is the evidence."""

EXAMPLES = """\b
Examples:
  rlm bench records --model openai:gpt-5-mini --limit 20 --dry-run
  rlm bench records --model openai:gpt-5-mini --limit 20 --max-cost 10
  rlm bench labels --model ollama:qwen3 --arm direct --arm code --arm depth-1 --chars 400000
  rlm bench longbench-v2 --model anthropic:claude-sonnet-4-5 --data longbench/ --limit 100
  rlm bench browsecomp-plus --data decrypted.jsonl --model openai:gpt-5 --judge anthropic:claude-sonnet-4-5
  rlm bench records --out bench-records --replay

\b
Suites that are generated, with exact answers, at any length:
  records, labels, pairs, needle, multi-key, chats, boards
Suites of others, with --data:
  oolong-synth, oolong-real, oolong-pairs, longbench-v2, browsecomp-plus

\b
Arms: auto (rlm as it is shipped), direct, truncated (the beginning that fits), map-reduce,
bm25-K (the best K passages; bm25: 8), code (no children), depth-N (sub-RLMs), attempts-N.
All arms have the same model, limits and prompts of rlm; none has a word of its own.

The folder --out gets results.jsonl, report.json, report.md, report.svg, and runs.db with the journal of
every run. If the command is interrupted or killed, the same command continues and pays for nothing twice.
A larger --limit, more arms or repetitions add to what the folder has.
"""


@takes_run_options(
    without_effect={
        "store_mb": "a bench keeps every run",
        "verbose": "many runs take place at a time; `rlm show RUN --store DIR/runs.db` shows one",
    },
    refused={
        "strategy": "each arm has its own; name arms with --arm",
        "max_depth": "each arm has its own; name arms with --arm depth-N",
        "schema": "the question says what to answer with",
        "exclude": "the suite gives the texts",
        "allow_host": "the suite gives the texts",
        "mcp": "no arm has tools",
        "store": "the journal is in the folder --out",
        "no_document_cache": "a replay needs the texts",
        "cache": "an arm would use what another one paid for",
    },
)
def bench(
    ctx: typer.Context,
    suite: Annotated[str, typer.Argument(metavar="SUITE", help="The set of questions.", show_default=False)],
    arm: Annotated[
        list[str] | None,
        typer.Option(
            metavar="ARM",
            help="A way to answer. Repeatable. Default: direct, truncated, map-reduce, bm25, code, depth-1, "
            "depth-2, depth-3, attempts-3.",
            show_default=False,
        ),
    ] = None,
    limit: Annotated[int, typer.Option(min=1, max=100_000, help="Number of questions.")] = 20,
    repeats: Annotated[int, typer.Option(min=1, max=99, help="Runs of each arm on each question.")] = 1,
    chars: Annotated[
        int, typer.Option(min=1_000, max=1_000_000_000, help="Characters of a generated text.")
    ] = 100_000,
    seed: Annotated[int, typer.Option(min=0, help="What questions are generated or drawn.")] = 1,
    data: Annotated[
        Path | None,
        typer.Option(
            metavar="PATH", help="The data of a suite of others: a file or folder.", show_default=False
        ),
    ] = None,
    judge: Annotated[
        str | None,
        typer.Option(
            metavar="MODEL",
            help="The model that judges answers that no rule can. It must play no arm.",
            show_default=False,
        ),
    ] = None,
    out: Annotated[
        Path | None,
        typer.Option(
            "--out",
            "-o",
            metavar="DIR",
            help="The folder of the results. Default: bench-SUITE.",
            show_default=False,
        ),
    ] = None,
    reference: Annotated[
        str | None,
        typer.Option(metavar="ARM", help="The arm to compare with. Default: direct.", show_default=False),
    ] = None,
    run_cost: Annotated[
        float | None,
        typer.Option(
            min=0.0, help="US dollars of one run. Default: 1, and at most --max-cost.", show_default=False
        ),
    ] = None,
    jobs: Annotated[int, typer.Option("--jobs", "-j", min=1, max=256, help="Runs in parallel.")] = 4,
    replay: Annotated[
        bool,
        typer.Option("--replay", help="Replay every run of --out without a model, and score it again."),
    ] = False,
    *,
    options: RunOptions,
) -> None:
    """Compare ways to answer with one model. --max-cost limits the whole bench, other limits each run."""
    from rlm.bench import BenchFolder, find_suite, load_items, plan_bench
    from rlm.cli.telemetry import start_telemetry

    chosen = find_suite(suite)
    folder = out or Path(f"bench-{suite}")
    if replay:
        _replay(BenchFolder.read(folder), options.settings(ctx), options)
        return
    items = load_items(chosen, limit=limit, seed=seed, chars=chars, data=data)
    settings = _settings(options.settings(ctx), folder)
    started = BenchFolder.read(folder) if (folder / "bench.json").exists() else None
    if run_cost is None and started is not None:
        run_cost = started.facts["limits"]["cost_usd"]
    max_cost, each = _dollars(options.limits.max_cost, run_cost)
    limits = replace(options.limits, max_cost=each)
    start_telemetry()
    rlm = _rlm(options, settings, limits)
    judging = _judge(judge, rlm, items)
    is_priced = _is_priced(rlm, judging)
    if not is_priced and not is_default(ctx, "max_cost"):
        raise ConfigurationError(
            f"--max-cost cannot be enforced: a price of {rlm.model.name} or of another model is unknown; put "
            'it into rlm.toml as [models."NAME"] with input_price and output_price, or leave --max-cost out'
        )
    arms = _arms(arm, options.model_name)
    if options.dry_run:
        done = {} if started is None else started.rows
        plans = run_interruptible(plan_bench(rlm, items, arms, repeats, done))
        _print_plan(len(items), plans, as_json=options.as_json)
        return
    facts = {
        "suite": suite,
        "model": rlm.model.name,
        "sub_model": ", ".join(model.name for model in rlm.sub_models.values()),
        "summary_model": rlm.summary_model.name,
        "judge": None if judging is None else judging.model.name,
        "seed": seed,
        "chars": chars if chosen.generate is not None else None,
        "limits": limits.to_json(),
        "rlm": _version(),
    }
    with BenchFolder.open(folder, facts, items) as opened:
        work = _bench(rlm, items, arms, repeats, opened, max_cost if is_priced else None, judging, jobs)
        end = _run(work, options)
        _leave(opened, end, reference, options)


bench.__doc__ = f"{bench.__doc__}\n\n{EXAMPLES}"


def _version() -> str:
    from rlm.version import __version__

    return __version__


def _arms(names: Sequence[str] | None, model: str) -> list[Arm]:
    """Return the arms, without those that make no sense for `extractive`."""
    from rlm.bench import DEFAULT_ARMS, find_arm
    from rlm.models.base import EXTRACTIVE

    arms = [find_arm(name) for name in dict.fromkeys(names or DEFAULT_ARMS)]
    if model != EXTRACTIVE:
        return arms
    if names and any(one.kind == "attempts" for one in arms):
        raise UsageError("extractive gives the same answer every time: leave the arm attempts out")
    kept = [one for one in arms if one.kind != "attempts"]
    if len(kept) < len(arms):
        say("the arm attempts is left out: extractive gives the same answer every time")
    return kept


def _settings(settings: Settings, folder: Path) -> Settings:
    return replace(
        settings,
        store=folder / "runs.db",
        store_mb=_STORE_MB,
        keep_input=True,
        document_cache=False,
        cache=False,
    )


def _dollars(total: float, each: float | None) -> tuple[float, float]:
    """Return the limit of the bench and that of a run. Raises UsageError if no run fits the bench's."""
    if each is not None and each > total:
        raise UsageError(f"--run-cost {each:g} is more than --max-cost {total:g} of the whole bench")
    return total, min(_RUN_COST, total) if each is None else each


def _rlm(options: RunOptions, settings: Settings, limits: Any) -> RLM:
    from rlm.runtime import RLM

    return RLM(
        options.model_name,
        sub_models=options.sub_models,
        summary_model=options.summary_model,
        limits=limits,
        settings=settings,
    )


def _judge(name: str | None, rlm: RLM, items: Sequence[Item]) -> Judge | None:
    """Return the judge, if the suite needs one. Raises UsageError without one."""
    import os

    from rlm.bench import Judge, check_judge
    from rlm.models import ModelOptions, resolve
    from rlm.models.catalog.overrides import facts_for
    from rlm.models.catalog.prices import Prices

    is_needed = any(item.rule == "model" for item in items)
    if name is None:
        if is_needed:
            raise UsageError(
                "no rule can score the answers of this suite: give --judge MODEL, another model than those "
                "of the arms"
            )
        return None
    arms = [model.name for model in (rlm.model, *rlm.sub_models.values(), rlm.summary_model)]
    check_judge(name, arms)
    if not is_needed:
        say("--judge has no effect here: answers of this suite are scored by rule")
        return None
    facts = rlm.settings.facts
    own = facts_for(name, facts)
    model = resolve(name, os.environ, ModelOptions() if own is None else ModelOptions(calls=own.calls))
    return Judge(model, Prices(facts))


def _is_priced(rlm: RLM, judge: Judge | None) -> bool:
    from rlm.models.catalog.prices import Prices

    prices = Prices(rlm.settings.facts)
    models = [rlm.model, *rlm.sub_models.values(), rlm.summary_model]
    models += [] if judge is None else [judge.model]
    return all(prices.at_most(model, 1_000, 100) is not None for model in models)


def _bench(
    rlm: RLM,
    items: Sequence[Item],
    arms: Sequence[Arm],
    repeats: int,
    folder: BenchFolder,
    max_cost: float | None,
    judge: Judge | None,
    jobs: int,
) -> Bench:
    from rlm.bench import Bench

    return Bench(rlm, items, arms, repeats, folder, max_cost, judge, jobs)


def _run(work: Bench, options: RunOptions) -> BenchEnd:
    """Run the bench with a line of progress. Raises typer.Exit if it is interrupted."""
    from rlm.cli.console.display import ProgressDisplay
    from rlm.cli.console.render_result import dollars, plural

    total, folder = len(work.keys), work.folder
    before = sum(row.score is not None for row in folder.rows.values())
    with ProgressDisplay("starting", quiet=options.quiet) as display:
        if before:
            display.note(f"continuing {folder.path}: {before:,} results are there")

        def on_row(row: Row) -> None:
            done = sum(one.score is not None for one in folder.rows.values())
            spent = sum(one.cost_usd or 0.0 for one in folder.rows.values()) + folder.judge_cost
            display.show_progress(
                f"{done:,} of {plural(total, 'run')}, {dollars(spent)}: {row.item}, {row.arm}"
            )

        try:
            return run_interruptible(replace(work, on_row=on_row).run())
        except KeyboardInterrupt:
            display.close()
            written = f"{plural(len(folder.rows), 'result')} in {folder.path}"
            say(f"interrupted; {written}; the same command continues")
            raise typer.Exit(Exit.INTERRUPTED) from None


def _leave(folder: BenchFolder, end: BenchEnd, reference: str | None, options: RunOptions) -> None:
    """Write and print the report. Raises typer.Exit if runs are missing."""
    from rlm.bench import report_of
    from rlm.escaping import json_bytes, terminal_text

    report = report_of(folder, reference)
    _write(folder, report)
    if options.as_json:
        typer.echo(json_bytes(report.to_json(), indent=2))
    else:
        typer.echo(terminal_text(report.text()))
        if not options.quiet:
            typer.echo(f"written to {folder.path}: report.md, report.json, report.svg, runs.db", err=True)
    if end.missing:
        reason = end.stopped or (end.failed[-1] if end.failed else "")
        say(f"{end.missing:,} runs are missing ({reason}); the same command continues")
        raise typer.Exit(Exit.MODEL if end.failed else Exit.NO_ANSWER)


def _write(folder: BenchFolder, report: BenchReport) -> None:
    from rlm.bench import chart_of, write_whole
    from rlm.escaping import json_bytes

    write_whole(folder.path / "report.json", json_bytes(report.to_json(), indent=1) + b"\n")
    write_whole(folder.path / "report.md", report.markdown().encode())
    write_whole(folder.path / "report.svg", chart_of(report).encode())


def _print_plan(items: int, plans: Sequence[ArmPlan], *, as_json: bool) -> None:
    from rlm.cli.console.render_result import dollars, plural
    from rlm.escaping import json_bytes

    costs = [plan.cost_usd for plan in plans]
    total = None if None in costs else round(sum(filter(None, costs)), 4)
    runs, tokens = sum(plan.runs for plan in plans), sum(plan.tokens for plan in plans)
    if as_json:
        figures = {"items": items, "runs": runs, "tokens": tokens, "cost_usd": total}
        typer.echo(json_bytes({**figures, "arms": [asdict(plan) for plan in plans]}, indent=2))
        return
    for plan in plans:
        cost = "cost unknown" if plan.cost_usd is None else dollars(plan.cost_usd)
        long = f", {plan.too_long:,} too long for one prompt" if plan.too_long else ""
        typer.echo(f"{plan.arm:<12}{plural(plan.runs, 'run')}{long}, about {plan.tokens:,} tokens, {cost}")
    cost = "cost unknown" if total is None else dollars(total)
    typer.echo(
        f"{plural(items, 'question')}, {plural(runs, 'run')}, about {tokens:,} tokens, "
        f"{cost} (if children read every part once)\nnothing was spent"
    )


def _replay(folder: BenchFolder, settings: Settings, options: RunOptions) -> None:
    """Replay all runs and report those that do not hold. Raises typer.Exit if there are any."""
    from rlm.bench import report_of
    from rlm.bench.evidence import replay_rows
    from rlm.cli.console.display import ProgressDisplay
    from rlm.cli.console.render_result import plural
    from rlm.escaping import json_bytes, terminal_text

    checked, faults = 0, []

    async def replay_all(display: ProgressDisplay) -> None:
        nonlocal checked
        async for evidence in replay_rows(folder, settings):
            checked += 1
            row = evidence.row
            display.show_progress(f"{checked:,} runs replayed: {row.item}, {row.arm}")
            if evidence.fault:
                faults.append({"run": row.run_id, "fault": evidence.fault})

    with ProgressDisplay("starting", quiet=options.quiet) as display:
        run_interruptible(replay_all(display))
    _write(folder, report_of(folder))
    if options.as_json:
        typer.echo(json_bytes({"replayed": checked, "faults": faults}, indent=2))
    else:
        typer.echo(f"{plural(checked, 'run')} replayed without a model, {len(faults):,} differ")
        for fault in faults:
            typer.echo(terminal_text(f"{fault['run']}: {fault['fault']}"))
    if faults:
        raise typer.Exit(Exit.NO_ANSWER)
