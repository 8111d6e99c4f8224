"""`rlm ask`: a question over files, folders or stdin."""

from __future__ import annotations

import json
import os
import stat
import sys
from contextlib import ExitStack, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.config import ConfigOption, settings_in_force
from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.interrupts import run_interruptible
from rlm.cli.outcome import interrupted, leave_with
from rlm.cli.store import StoreOption, with_journal
from rlm.errors import ConfigurationError, UsageError

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm.documents import Source
    from rlm.events import Observer
    from rlm.plan import RunPlan
    from rlm.runtime import RLM
    from rlm.tasks.ask import Answered

__all__ = ["ask", "takes_rounds"]

_LONG_BYTES = 1 << 20
"""A file of so much is seldom short enough for one call."""

EXAMPLES = """\b
Examples:
  rlm ask "Which clause ends the contract early?" contract.txt
  rlm ask "What does heapq.merge do?" src/ --exclude 'test*'
  journalctl -b | rlm ask "Why did the network go down?" -
  rlm ask "How long is the notice?" lease.pdf --choice "one month" --choice "three months"
  rlm ask "Who is the supplier?" folder/ --model openai:gpt-5@http://localhost:8000/v1 --json
  rlm ask "And since when?" --continue 20260131-142501
"""


def ask(
    ctx: typer.Context,
    question: Annotated[str, typer.Argument(help="What is to be answered.", show_default=False)],
    paths: Annotated[
        list[str] | None,
        typer.Argument(metavar="PATH…", help="Files, folders, globs, or - for stdin.", show_default=False),
    ] = None,
    continued: Annotated[
        str | None,
        typer.Option(
            "--continue",
            metavar="RUN",
            help="Go on from that run: its text, its variables, its model if none is given; PATHs are added.",
            show_default=False,
        ),
    ] = None,
    model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_MODEL",
            help="The root: anthropic:NAME, openai:NAME, openai:NAME@URL, extractive, scripted:FILE, "
            "replay:RUN. Default: the one whose key is set, else extractive.",
        ),
    ] = None,
    sub_model: Annotated[
        str | None, typer.Option(envvar="RLM_SUB_MODEL", help="The children's model. Default: the root's.")
    ] = None,
    summary_model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_SUMMARY_MODEL", help="Folds older rounds near the window. Default: the children's."
        ),
    ] = None,
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out what matches, as in .gitignore; may be repeated.")
    ] = None,
    strategy: Annotated[
        Literal["auto", "rlm", "direct"],
        typer.Option(envvar="RLM_STRATEGY", help="auto: short inputs are answered by one call."),
    ] = "auto",
    contract: Annotated[
        Literal["one-block", "strict"],
        typer.Option(envvar="RLM_CONTRACT", help="strict: prose around the block is refused."),
    ] = "one-block",
    max_rounds: Annotated[int, typer.Option(envvar="RLM_MAX_ROUNDS", help="Rounds of the root.")] = 30,
    max_depth: Annotated[
        int, typer.Option(envvar="RLM_MAX_DEPTH", help="How deep sub-RLMs may go; 0: none, children alone.")
    ] = 1,
    max_calls: Annotated[int, typer.Option(envvar="RLM_MAX_CALLS", help="Child calls.")] = 1_000,
    max_tokens: Annotated[
        int, typer.Option(envvar="RLM_MAX_TOKENS", help="Tokens, all in all.")
    ] = 10_000_000,
    max_cost: Annotated[float, typer.Option(envvar="RLM_MAX_COST", help="US dollars.")] = 5.0,
    max_seconds: Annotated[
        float, typer.Option(envvar="RLM_MAX_SECONDS", help="Seconds of the run.")
    ] = 1_800.0,
    cell_seconds: Annotated[
        float, typer.Option(envvar="RLM_CELL_SECONDS", help="Seconds of computing of one block.")
    ] = 120.0,
    concurrency: Annotated[int, typer.Option(envvar="RLM_CONCURRENCY", help="Children at a time.")] = 16,
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON Schema that the answer must match.", show_default=False),
    ] = None,
    choice: Annotated[
        list[str] | None,
        typer.Option(
            metavar="TEXT", help="One of the answers to choose from; repeat it.", show_default=False
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take; ask no model, spend nothing.")
    ] = False,
    sandbox: Annotated[
        SandboxOption,
        typer.Option(envvar="RLM_SANDBOX", help="Isolation: auto takes the strongest, 0 is none at all."),
    ] = "auto",
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what happens there, as JSON lines.", show_default=False),
    ] = None,
    store: StoreOption = None,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            envvar="RLM_NO_CACHE",
            help="Keep no copy of large inputs from run to run, and use none that is kept.",
        ),
    ] = False,
    store_mb: Annotated[
        int, typer.Option(envvar="RLM_STORE_MB", help="Over it the journal loses its oldest finished runs.")
    ] = 2_048,
    cache: Annotated[
        bool, typer.Option("--cache", envvar="RLM_CACHE", help="Take children's answers of earlier runs.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no account on stderr.")] = False,
    config: ConfigOption = None,
) -> None:
    """Answer a question over any amount of text, with citations."""
    if not dry_run and takes_rounds(paths or (), strategy):
        _begin_forkserver()

    from rlm.budget import Limits
    from rlm.cli.progress import Progress
    from rlm.documents import sources_from_arguments
    from rlm.driver import RootSettings
    from rlm.engine import Settings
    from rlm.models import default_model
    from rlm.runtime import RLM
    from rlm.trace import TraceFile

    _check(paths or (), continued, dry_run=dry_run, choices=choice or ())
    if continued is not None:
        model, sub_model, summary_model = _models_of(store, continued, model, sub_model, summary_model)
    limits = Limits(
        rounds=max_rounds,
        depth=max_depth,
        sub_calls=max_calls,
        tokens=max_tokens,
        cost_usd=max_cost,
        seconds=max_seconds,
        cell_seconds=cell_seconds,
        concurrency=concurrency,
    )
    settings = Settings(
        strategy=strategy,
        sandbox=allowed_level(sandbox, model_written=(model or default_model(os.environ)) != "extractive"),
        store=store,
        document_cache=not no_cache,
        store_mb=store_mb,
        cache=cache,
        root=RootSettings(contract=contract),
        facts=settings_in_force(ctx).models,
    )
    with ExitStack() as stack:
        progress = stack.enter_context(Progress(quiet=quiet, seconds=max_seconds))
        observers: list[Observer] = [progress.take]
        if trace is not None:
            observers.append(stack.enter_context(TraceFile(trace)).take)
        rlm = RLM(
            model,
            sub_model=sub_model,
            summary_model=summary_model,
            limits=limits,
            settings=settings,
            observe=observers,
        )
        sources = sources_from_arguments(paths, sys.stdin.buffer, exclude=exclude or ()) if paths else []
        try:
            if dry_run:
                _print_plan(run_interruptible(rlm.plan(sources)), as_json=as_json)
                return
            answered = run_interruptible(
                _run(rlm, question, sources, _schema(schema), choice or (), continued)
            )
        except KeyboardInterrupt:
            progress.close()
            raise interrupted(progress.run_id) from None
    leave_with(answered.result, as_json=as_json, quiet=quiet, data=answered.to_json())


ask.__doc__ = f"{ask.__doc__}\n\n{EXAMPLES}"


def takes_rounds(paths: Sequence[str], strategy: str) -> bool:
    """Whether a kernel will most likely be wanted."""
    if strategy != "auto":
        return strategy == "rlm"
    for path in paths:
        with suppress(OSError, ValueError):
            status = Path(path).stat()
            if stat.S_ISDIR(status.st_mode) or status.st_size >= _LONG_BYTES:
                return True
    return False


def _begin_forkserver() -> None:
    """Its imports go on beside our own, which take about as long."""
    from sandbox.brokers import BrokerUnavailable
    from sandbox.forkserver.client import shared_forkserver

    with suppress(BrokerUnavailable):
        shared_forkserver().warm()


def _schema(file: Path | None) -> object:
    """What `--schema` names. Raises ConfigurationError for a file that can't be read or holds no object."""
    if file is None:
        return None
    try:
        schema = json.loads(file.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigurationError(f"--schema {file} can't be read: {error.strerror}; check the path") from None
    except ValueError as error:
        raise ConfigurationError(f"--schema {file} is not JSON ({error}); give a JSON Schema") from None
    if not isinstance(schema, dict):
        raise ConfigurationError(f"--schema {file} holds no JSON object; give a JSON Schema")
    return schema


def _check(paths: Sequence[str], continued: str | None, *, dry_run: bool, choices: Sequence[str]) -> None:
    if continued is None and not paths:
        raise UsageError("no PATH was given: name files or folders, - for stdin, or a run (--continue RUN)")
    if continued is not None and (dry_run or choices):
        wanted = "--dry-run" if dry_run else "--choice"
        raise UsageError(f"{wanted} can't be had with --continue: leave one out")


def _models_of(
    store: str | None, run: str, model: str | None, sub_model: str | None, summary_model: str | None
) -> tuple[str, str | None, str | None]:
    """The models for a question that goes on from a run: those given, else those that it had."""
    from rlm.resume import LeftRun

    if model is not None:
        return model, sub_model, summary_model
    facts = with_journal(store, lambda journal: LeftRun.read(journal, run)).facts
    return facts["model"], sub_model or facts["sub_model"], summary_model or facts["summary_model"]


async def _run(
    rlm: RLM,
    question: str,
    sources: Sequence[Source],
    schema: object,
    choices: Sequence[str],
    continued: str | None,
) -> Answered:
    from rlm.tasks.ask import answered
    from rlm.tasks.ask import ask as answer

    try:
        if continued is None:
            return await answer(rlm, question, sources, choices=choices, schema=schema)
        async with rlm.session(sources, after=continued) as session:
            return answered(question, await session.run(question, schema=schema))
    finally:
        await rlm.aclose()


def _print_plan(plan: RunPlan, *, as_json: bool) -> None:
    from rlm.cli.answer import json_bytes, plan_text

    typer.echo(json_bytes(plan.to_json(), indent=2) if as_json else plan_text(plan))
