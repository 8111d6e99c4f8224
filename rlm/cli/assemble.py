"""`rlm assemble`: a prompt out of a JSON file. The commands share their reading and their printing."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from rlm.cli.answer import json_bytes, printable
from rlm.cli.exits import say
from rlm.errors import UsageError

if TYPE_CHECKING:
    from prompts import AssembledScoped

__all__ = ["FileArgument", "JsonOption", "ReportOption", "assemble_app", "read_input", "show_prompt"]

assemble_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The input as JSON, or - for stdin.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print prompt, sections and report as JSON.")]
ReportOption = Annotated[
    bool, typer.Option("--report", help="Print a table of every section's tokens and fate behind the prompt.")
]

_TABLE_COLUMNS = 120


@assemble_app.callback()
def group() -> None:
    """Assemble a prompt within its budget, and say what went in. Nothing is asked of a model."""


def read_input(file: str) -> Any:
    """The JSON in a file or on stdin. Raises UsageError."""
    name = "stdin" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return json.loads(data)
    except OSError as error:
        raise UsageError(f"{name} can't be read: {error.strerror}; check the path") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise UsageError(f"{name} is not JSON ({error}): give one JSON object") from None


def show_prompt(prompt: AssembledScoped, *, as_json: bool, report: bool) -> None:
    """The prompt on stdout, as text or JSON; the table behind it, or beside the JSON on stderr. Warnings go
    to stderr."""
    if as_json:
        typer.echo(json_bytes(prompt.to_json(), indent=2))
    else:
        # What a file gets are the prompt's own characters; a terminal must not be talked to by them.
        typer.echo(printable(prompt.text) if sys.stdout.isatty() else prompt.text)
    if report:
        from rich.console import Console

        stream = sys.stderr if as_json else sys.stdout
        console = Console(file=stream, width=None if stream.isatty() else _TABLE_COLUMNS)
        if not as_json:
            console.print()
        console.print(prompt.report)
    for warning in prompt.report.warnings:
        say(warning)
