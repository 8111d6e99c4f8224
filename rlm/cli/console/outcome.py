"""How a command that ran a run ends: its result printed, its exit code."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

import typer

from rlm.cli.console.exits import Exit, say
from rlm.cli.console.render_result import account, answer_text, json_bytes, no_answer, plan_text, styled

if TYPE_CHECKING:
    from rlm.accounting.run_plan import RunPlan
    from rlm.results import RunResult

__all__ = ["interrupted", "leave_with", "print_plan"]


def leave_with(
    result: RunResult, *, as_json: bool, quiet: bool, data: Mapping[str, Any] | None = None
) -> None:
    """Print a result, the answer on stdout alone. Raises typer.Exit where there is no answer. `data` is what
    there is as JSON, where that is more than the result."""
    if as_json:
        typer.echo(json_bytes(data or result.to_json(), indent=2))
    elif result.answer is not None:
        text = answer_text(result)
        if sys.stdout.isatty():
            from rich.console import Console

            Console(highlight=False).print(styled(text), soft_wrap=True)
        else:
            typer.echo(text)
    why = no_answer(result)
    if why is not None:
        say(f"no answer ({result.stop_reason}): {why}")
    # Where no model was reached there is nothing to account for.
    if not quiet and (why is None or result.usage):
        typer.echo(account(result), err=True)
    if result.answer is None:
        raise typer.Exit(Exit.MODEL if result.stop_reason == "model" else Exit.NO_ANSWER)


def interrupted(run_id: str | None) -> typer.Exit:
    """Say what became of a run that was interrupted; what to raise."""
    say("interrupted" + (f"; to go on with it: rlm resume {run_id}" if run_id else ""))
    return typer.Exit(Exit.INTERRUPTED)


def print_plan(plan: RunPlan, *, as_json: bool) -> None:
    """What a run would take, on stdout."""
    typer.echo(json_bytes(plan.to_json(), indent=2) if as_json else plan_text(plan))
