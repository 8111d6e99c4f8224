"""`rlm assemble`: a prompt made from a JSON file."""

from __future__ import annotations

import os
import sys
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.config import ConfigOption, card_in_force
from rlm.cli.console.exits import say
from rlm.cli.console.streams import unfiltered
from rlm.cli.store import StoreOption
from rlm.escaping import json_bytes, terminal_line, terminal_text

if TYPE_CHECKING:
    from rich.table import Table

    from rlm.prompts import AssembledPrompt, Report

__all__ = ["assemble_app"]

assemble_app = typer.Typer(no_args_is_help=True, rich_markup_mode=None)

FileArgument = Annotated[
    str, typer.Argument(metavar="FILE", help="A JSON file, or - for stdin.", show_default=False)
]
JsonOption = Annotated[bool, typer.Option("--json", help="Print prompt, sections and report as JSON.")]
ReportOption = Annotated[
    bool,
    typer.Option(
        "--report", help="Print a table of the sections after the prompt: their tokens, and what was dropped."
    ),
]

_TABLE_COLUMNS = 120
_TABLE_ROWS = 25  # parts of a section


@assemble_app.callback()
def group() -> None:
    """Assemble a prompt within its token budget.

    --report shows what the prompt contains. No model is asked, unless --summary-model names one to summarize
    the long history of a card.

    \b
    Examples:
      rlm assemble card examples/card.json --report
      rlm assemble root
    """


@assemble_app.command("card")
def card(
    ctx: typer.Context,
    file: FileArgument,
    summary_model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_SUMMARY_MODEL",
            help="The model that summarizes a long history. Default: key sentences, without a model.",
        ),
    ] = None,
    as_json: JsonOption = False,
    report: ReportOption = False,
    config: ConfigOption = None,
) -> None:
    """Assemble a development card: instructions for its stage, its history, its context by priority.

    \b
    Examples:
      rlm assemble card examples/card.json --report
      rlm assemble card card.json --config rlm.toml --json
    """
    from rlm.prompts import CardInput, CardPrompt

    settings = card_in_force(ctx)
    given = CardInput.from_json(read_input(file))
    if summary_model is None:
        assembled = CardPrompt(settings).assemble(given)
        if settings.summary_model and assembled.condensed:
            say(
                "the history was condensed without a model. To use the model of [prompt.rlm]: "
                f"--summary-model {settings.summary_model}"
            )
    else:
        from rlm.cli.summarizer import summarizer

        with summarizer(summary_model, os.environ) as summarize:
            assembled = CardPrompt(settings, summarizer=summarize).assemble(given)
    show_prompt(assembled, as_json=as_json, report=report)


@assemble_app.command("cited")
def cited(file: FileArgument, as_json: JsonOption = False, report: ReportOption = False) -> None:
    """Assemble retrieved passages under citation markers: a system and a user message.

    \b
    Example:
      rlm assemble cited examples/cited.json --json
    """
    from rlm.prompts import CitedPrompt

    show_prompt(CitedPrompt().assemble(read_input(file)), as_json=as_json, report=report)


@assemble_app.command("tiles")
def tiles(file: FileArgument, as_json: JsonOption = False, report: ReportOption = False) -> None:
    """Assemble scored tiles, critical ones first. Warns of critical domains without a tile.

    \b
    Example:
      rlm assemble tiles examples/tiles.json --report
    """
    from rlm.prompts import TilePrompt

    show_prompt(TilePrompt().assemble(read_input(file)), as_json=as_json, report=report)


@assemble_app.command("child")
def child(file: FileArgument, as_json: JsonOption = False, report: ReportOption = False) -> None:
    """Assemble a child call: one task, and one slice between boundary lines.

    \b
    Example:
      rlm assemble child examples/child.json
    """
    from rlm.prompts import ChildPrompt

    show_prompt(ChildPrompt().assemble(read_input(file)), as_json=as_json, report=report)


@assemble_app.command("root")
def root(
    model: Annotated[
        str, typer.Option(help="Add the instructions for this model's family.", show_default=False)
    ] = "",
    contract: Annotated[Literal["one-block", "strict"], typer.Option(help="The reply format.")] = "one-block",
    as_json: JsonOption = False,
    report: ReportOption = False,
    config: ConfigOption = None,
) -> None:
    """Print the instructions of the root model, with which every run starts.

    \b
    Example:
      rlm assemble root --model openai:gpt-5
    """
    from rlm.driver.root_input import root_helpers
    from rlm.prompts import HandleFacts, RootInput
    from rlm.prompts.recipes.root import root_system

    given = RootInput(
        task="",
        helpers=root_helpers(),
        handle=HandleFacts(chars=0, lines=0),
        contract=contract,
        model=model,
    )
    show_prompt(root_system(given), as_json=as_json, report=report)


def read_input(file: str) -> Any:
    """Return the JSON in a file or on stdin. Raises InputError."""
    from rlm.prompts import InputError
    from rlm.prompts.json_input import parse_json

    name = "stdin" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return parse_json(data)
    except OSError as error:
        raise InputError(name, f"cannot be read: {error.strerror}", "check the path") from None
    except ValueError as error:
        raise InputError(name, f"is not JSON ({error})", "give one JSON object") from None


def show_prompt(prompt: AssembledPrompt, *, as_json: bool, report: bool) -> None:
    """Print the prompt on stdout, and warnings on stderr. Only its JSON holds control characters.

    The table follows the text on stdout, or goes to stderr if stdout has JSON.
    """
    if as_json:
        typer.echo(json_bytes(prompt.to_json(), indent=2))
    else:
        typer.echo(terminal_text(prompt.text))
    if report:
        from rich.console import Console

        stream = sys.stderr if as_json else sys.stdout
        console = Console(file=unfiltered(stream), width=None if stream.isatty() else _TABLE_COLUMNS)
        if not as_json:
            console.print()
        console.print(_report_table(prompt.report))
    for warning in prompt.report.warnings:
        say(warning)


def _report_table(report: Report) -> Table:
    """Return a table with a row for each section, and one for each part where a section has several.

    Of more than 25 parts, those that were changed or dropped are shown first.
    """
    from rich.table import Table
    from rich.text import Text

    of = "" if report.totals.allowed is None else f" of {report.totals.allowed:,}"
    notes = Text("\n".join(map(terminal_line, (*report.actions, *report.warnings))))
    table = Table(title=f"{report.totals.prompt:,}{of} tokens ({report.counter})", caption=notes or None)
    for heading in ("section", "item", "fate", "before", "after", "why"):
        table.add_column(heading, justify="right" if heading in ("before", "after") else "left")

    def add(section: str, item: str, fate: str, before: int, after: int, why: str) -> None:
        texts = (Text(terminal_line(text)) for text in (section, item, fate))
        table.add_row(*texts, f"{before:,}", f"{after:,}", Text(terminal_line(why)))

    for section, parts in groupby(report.decisions, key=lambda decision: decision.section):
        rows = list(parts)
        if len(rows) > 1:
            kept = sum(row.status != "dropped" for row in rows)
            before, after = sum(row.tokens_before for row in rows), sum(row.tokens_after for row in rows)
            add(section, f"{len(rows):,} items", f"{kept:,} of {len(rows):,} in", before, after, "")
        shown = rows
        if len(rows) > _TABLE_ROWS:
            shown = sorted(rows, key=lambda row: row.status == "included")[:_TABLE_ROWS]
        for row in shown:
            name = section if len(rows) == 1 else ""
            add(name, row.id, row.status, row.tokens_before, row.tokens_after, row.reason)
        if len(rows) > len(shown):
            table.add_row("", f"… {len(rows) - len(shown):,} more")
    return table


@assemble_app.command()
def scoped(
    file: FileArgument,
    store: StoreOption = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Use the versions with this label, and skip segments without it.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
    report: ReportOption = False,
) -> None:
    """Assemble stored segments by scope, then the layers of this turn, within a budget.

    FILE may hold "orders": the orders of layers by "entry_type".

    \b
    Examples:
      rlm segments import examples/segments.json --store demo.db
      rlm assemble scoped examples/scoped.json --store demo.db --report
      rlm assemble scoped turn.json --label production --json
    """
    from rlm.prompts import ScopedInput, ScopedPrompt
    from rlm.prompts.segments import SegmentStore

    data = read_input(file)
    orders = data.pop("orders", None) if isinstance(data, dict) else None
    given = ScopedInput.from_json(data)
    with SegmentStore.open(store) as opened:
        prompt = ScopedPrompt(opened.adapter(label), orders=orders).assemble(given)
    show_prompt(prompt, as_json=as_json, report=report)
