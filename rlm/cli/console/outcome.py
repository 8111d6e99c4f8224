"""Prints the result of a run and sets the exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.render_result import (
    account,
    answer_text,
    full_account,
    no_answer,
    plan_text,
    style_account,
    style_answer,
)
from rlm.cli.console.streams import unfiltered
from rlm.escaping import json_bytes

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.results import RunResult
    from rlm.status import WaitingBatches

__all__ = ["print_account", "print_and_exit", "print_plan", "print_result", "report_interrupt", "say_left"]


def print_and_exit(
    result: RunResult,
    *,
    as_json: bool,
    quiet: bool,
    verbose: bool = False,
    documents: int | None = None,
    data: Mapping[str, Any] | None = None,
) -> None:
    """Print the result as `print_result`, or all of it as JSON. `data` replaces it, with its text.

    Raises typer.Exit if there is no answer.
    """
    if as_json:
        typer.echo(json_bytes(data or {**result.to_json(), "text": result.text}, indent=2))
    print_result(result, quiet=quiet, verbose=verbose, documents=documents, answer=not as_json)
    if result.answer is None:
        raise typer.Exit(Exit.MODEL if result.stop_reason == "model" else Exit.NO_ANSWER)


def print_result(
    result: RunResult,
    *,
    quiet: bool,
    verbose: bool = False,
    documents: int | None = None,
    answer: bool = True,
) -> None:
    """Print the answer on stdout, and a line about the run of these `documents` on stderr; all of it if
    `verbose`."""
    if answer and result.answer is not None:
        text = answer_text(result, markdown=not sys.stdout.isatty())
        if sys.stdout.isatty():
            from rich.console import Console

            console = Console(file=unfiltered(sys.stdout), highlight=False)
            console.print(style_answer(text), soft_wrap=True)
        else:
            typer.echo(text)
    reason = no_answer(result)
    if reason is not None:
        say(f"no answer ({result.stop_reason}): {reason}")
    # If no model was reached, there is no usage to print.
    if not quiet and (reason is None or result.usage):
        print_account(full_account(result) if verbose else account(result, documents))


def print_account(text: str) -> None:
    """Print the account of a run on stderr, styled in a terminal."""
    if not sys.stderr.isatty():
        typer.echo(text, err=True)
        return
    from rich.console import Console

    console = Console(file=unfiltered(sys.stderr), highlight=False)
    if sys.stdout.isatty():
        console.print()
    console.print(style_account(text))


def report_interrupt(run_id: str | None, waiting: WaitingBatches | None = None) -> typer.Exit:
    """Print the command that resumes the run, and what is `waiting`. Return the exception to raise."""
    say("interrupted" + (f"; to resume: rlm resume {run_id}" if run_id else ""))
    say_left(waiting)
    return typer.Exit(Exit.INTERRUPTED)


def say_left(waiting: WaitingBatches | None) -> None:
    """Print what happens to the batches that were not collected, and what can be done."""
    names = () if waiting is None else waiting.ids
    if names:
        one = len(names) == 1
        subject, is_charged, them = ("batch", "it is", "it") if one else ("batches", "they are", "them")
        say(
            f"the {subject} {', '.join(names)} stay{'s' if one else ''} at the provider and {is_charged} "
            f"charged: resume to collect {them}, or cancel {them} with rlm runs waiting --cancel ID"
        )


def print_plan(plan: RunPlan, *, as_json: bool) -> None:
    """Print the estimate of a run on stdout."""
    typer.echo(json_bytes(plan.to_json(), indent=2) if as_json else plan_text(plan))
