"""`rlm prompts`: the tools for prompts, which need no question."""

from __future__ import annotations

import typer

from rlm.cli.commands.prompts.assemble import assemble_app
from rlm.cli.commands.prompts.segments.app import segments_app

__all__ = ["prompts_app"]

prompts_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)


@prompts_app.callback()
def group() -> None:
    """Assemble prompts within a budget, and store their segments.

    \b
    Examples:
      rlm prompts assemble card examples/card.json --report
      rlm prompts assemble root
      rlm prompts segments list --store demo.db
    """


prompts_app.add_typer(assemble_app, name="assemble")
prompts_app.add_typer(segments_app, name="segments")
