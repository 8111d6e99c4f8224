"""`rlm ask`: a question over files, folders or stdin."""

from __future__ import annotations

import os
import sys
from typing import TYPE_CHECKING, Annotated, Literal

import typer

from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.exits import Exit, say
from rlm.cli.interrupts import run_interruptible

if TYPE_CHECKING:
    from collections.abc import Sequence

    from rlm.documents import Source
    from rlm.runtime import RLM
    from rlm.types import RunResult

__all__ = ["ask"]

EXAMPLES = """\b
Examples:
  rlm ask "Which clause ends the contract early?" contract.txt
  rlm ask "What does heapq.merge do?" src/ --exclude 'test*'
  journalctl -b | rlm ask "Why did the network go down?" -
  rlm ask "Who is the supplier?" folder/ --model openai:gpt-5@http://localhost:8000/v1 --json
"""


def ask(
    question: Annotated[str, typer.Argument(help="What is to be answered.", show_default=False)],
    paths: Annotated[
        list[str],
        typer.Argument(metavar="PATH…", help="Files, folders, globs, or - for stdin.", show_default=False),
    ],
    model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_MODEL",
            help="The root: anthropic:NAME, openai:NAME, openai:NAME@URL, extractive, scripted:FILE. "
            "Default: the one whose key is set, else extractive.",
        ),
    ] = None,
    sub_model: Annotated[
        str | None, typer.Option(envvar="RLM_SUB_MODEL", help="The children's model. Default: the root's.")
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
    sandbox: Annotated[
        SandboxOption,
        typer.Option(envvar="RLM_SANDBOX", help="Isolation: auto takes the strongest, 0 is none at all."),
    ] = "auto",
    store: Annotated[
        str | None,
        typer.Option(envvar="RLM_STORE", help="The journal's file.", show_default="in the state folder"),
    ] = None,
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            envvar="RLM_NO_CACHE",
            help="Keep no copy of large inputs from run to run, and use none that is kept.",
        ),
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole result as JSON.")] = False,
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no account on stderr.")] = False,
) -> None:
    """Answer a question over any amount of text, with citations."""
    from rlm.budget import Limits
    from rlm.cli.progress import Progress
    from rlm.documents import sources_from_arguments
    from rlm.driver import RootSettings
    from rlm.models import default_model
    from rlm.runtime import RLM, Settings

    limits = Limits(
        rounds=max_rounds,
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
        root=RootSettings(contract=contract),
    )
    with Progress(quiet=quiet, seconds=max_seconds) as progress:
        rlm = RLM(model, sub_model=sub_model, limits=limits, settings=settings, observe=progress.take)
        sources = sources_from_arguments(paths, sys.stdin.buffer, exclude=exclude or ())
        try:
            result = run_interruptible(_run(rlm, question, sources))
        except KeyboardInterrupt:
            progress.close()
            kept = f"; what it did is kept: rlm show {progress.run_id}" if progress.run_id else ""
            say(f"interrupted{kept}")
            raise typer.Exit(Exit.INTERRUPTED) from None
    _print(result, as_json=as_json, quiet=quiet)
    if result.answer is None:
        raise typer.Exit(Exit.MODEL if result.stop_reason == "model" else Exit.NO_ANSWER)


ask.__doc__ = f"{ask.__doc__}\n\n{EXAMPLES}"


async def _run(rlm: RLM, question: str, sources: Sequence[Source]) -> RunResult:
    try:
        return await rlm.run(question, sources)
    finally:
        await rlm.aclose()


def _print(result: RunResult, *, as_json: bool, quiet: bool) -> None:
    from rich.console import Console

    from rlm.cli.answer import account, answer_text, json_bytes, no_answer, styled
    from rlm.cli.words import in_words

    if as_json:
        typer.echo(json_bytes(result.to_json(), indent=2))
    elif result.answer is not None:
        text = answer_text(result)
        if sys.stdout.isatty():
            Console(highlight=False).print(styled(text), soft_wrap=True)
        else:
            typer.echo(text)
    why = no_answer(result)
    if why is not None:
        say(f"no answer ({result.stop_reason}): {in_words(why)}")
    # Where no model was reached there is nothing to account for.
    if not quiet and (why is None or result.usage):
        typer.echo(account(result), err=True)
