"""`rlm assemble`: a prompt out of a JSON file, without asking a model."""

from __future__ import annotations

import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.answer import json_bytes, printable
from rlm.cli.config import ConfigOption, settings_in_force
from rlm.cli.exits import Exit, say
from rlm.cli.streams import tell

if TYPE_CHECKING:
    from prompts import AssembledPrompt

__all__ = ["FileArgument", "JsonOption", "ReportOption", "assemble_app", "read_input", "show_prompt"]

assemble_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="The input as JSON, or - for stdin.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print prompt, sections and report as JSON.")]
ReportOption = Annotated[
    bool, typer.Option("--report", help="Print a table of every section's tokens and fate as well.")
]


@assemble_app.callback()
def group() -> None:
    """Assemble a prompt within its budget and say what went in.

    No model is asked, unless --summary-model names one for a card's long history.

    \b
    Examples:
      rlm assemble card examples/card.json --report
      rlm assemble cited examples/cited.json --json
    """
