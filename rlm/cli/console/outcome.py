"""The end of a command that ran a run: its output and its exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.render_result import account, answer_text, json_bytes, no_answer, plan_text, style_answer

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.results import RunResult

__all__ = ["interrupted", "leave_with", "print_plan"]


def leave_with(
    result: RunResult, *, as_json: bool, quiet: bool, data: Mapping[str, Any] | None = None
) -> None:
    """Print the answer on stdout, and the rest on stderr. `data` is the JSON if it is more than the result.

    Raises typer.Exit if there is no answer.
    """
    if as_json:
        typer.echo(json_bytes(data or result.to_json(), indent=2))
    elif result.answer is not None:
        text = answer_text(result)
        if sys.stdout.isatty():
            from rich.console import Console

            Console(highlight=False).print(style_answer(text), soft_wrap=True)
        else:
            typer.echo(text)
    why = no_answer(result)
    if why is not None:
        say(f"no answer ({result.stop_reason}): {why}")
    # If no model was reached, there is nothing to account for.
    if not quiet and (why is None or result.usage):
        typer.echo(account(result), err=True)
    if result.answer is None:
        raise typer.Exit(Exit.MODEL if result.stop_reason == "model" else Exit.NO_ANSWER)


def interrupted(run_id: str | None) -> typer.Exit:
    """Report the interrupt with the command that resumes the run, and return what to raise."""
    say("interrupted" + (f"; to resume: rlm resume {run_id}" if run_id else ""))
    return typer.Exit(Exit.INTERRUPTED)


def print_plan(plan: RunPlan, *, as_json: bool) -> None:
    """Print on stdout what a run would take."""
    typer.echo(json_bytes(plan.to_json(), indent=2) if as_json else plan_text(plan))
