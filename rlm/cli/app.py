"""The commands, and the one place where an error becomes a line and an exit code."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from rlm.cli.ask import ask
from rlm.cli.doctor import doctor
from rlm.cli.exits import exit_for
from rlm.cli.runs import runs_app, show
from rlm.cli.sandbox import sandbox_app
from rlm.version import __version__

__all__ = ["app", "main"]

app = typer.Typer(
    name="rlm",
    help="Ask questions of texts far larger than any model's window.",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    add_completion=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)
app.command()(ask)
app.add_typer(runs_app, name="runs")
app.command()(show)
app.add_typer(sandbox_app, name="sandbox")
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rlm {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool, typer.Option("--version", help="Print the version.", callback=_print_version, is_eager=True)
    ] = False,
) -> None:
    """Ask questions of texts far larger than any model's window."""


def main() -> None:
    """Run the command line and leave with its exit code."""
    try:
        app()
    except Exception as error:
        # The one boundary: an error of ours becomes a line, anything else stays a traceback.
        sys.exit(exit_for(error))
