"""`rlm assemble`: a prompt made from a JSON file."""

from __future__ import annotations

import sys
from itertools import groupby
from pathlib import Path
from typing import Annotated, Any, Literal

import typer
from rich.console import Console
from rich.table import Table
from rich.text import Text

from rlm.cli.console.exits import say
from rlm.cli.console.streams import unfiltered
from rlm.cli.options import Options, takes
from rlm.cli.summarizer import summarizer
from rlm.driver.root_input import root_helpers
from rlm.errors import UsageError
from rlm.escaping import json_bytes, terminal_line, terminal_text
from rlm.prompts import (
    AssembledPrompt,
    CardInput,
    CardPrompt,
    ChildPrompt,
    CitedPrompt,
    HandleFacts,
    InputError,
    Report,
    RootInput,
    ScopedPrompt,
    TilePrompt,
)
from rlm.prompts.json_input import parse_json
from rlm.prompts.recipes.root import root_system
from rlm.prompts.segments import SegmentStore

__all__ = ["assemble", "read_input"]

_TABLE_COLUMNS = 120
_TABLE_ROWS = 25  # parts of a section


@takes("model", "summary_model", "contract", "store", "json", tables=("prompt",))
def assemble(
    kind: Annotated[
        Literal["card", "scoped", "cited", "tiles", "child", "root"],
        typer.Argument(metavar="KIND", help="card, scoped, cited, tiles, child or root.", show_default=False),
    ],
    file: Annotated[
        str | None,
        typer.Argument(
            metavar="FILE", help="A JSON file, or - for stdin; root has none.", show_default=False
        ),
    ] = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="scoped: use the versions with this label, and skip segments without it.", show_default=False
        ),
    ] = None,
    report: Annotated[
        bool,
        typer.Option(
            "--report",
            help="Print a table of the sections after the prompt: their tokens, and what was dropped.",
        ),
    ] = False,
    *,
    options: Options,
) -> None:
    """Assemble a prompt within its token budget.

    \b
    card     a development card: instructions for its stage, its history, its context by priority
    scoped   stored segments by scope (--store), then the layers of this turn
    cited    retrieved passages under citation markers: a system and a user message
    tiles    scored tiles, critical ones first
    child    a child call: one task, and one slice between boundary lines
    root     the instructions of the root model: --model adds those of its family

    No model is asked, unless --summary-model names one to summarize the long history of a card.

    \b
    Examples:
      rlm assemble card examples/card.json --report
      rlm segments import examples/segments.json --store demo.db
      rlm assemble scoped examples/scoped.json --store demo.db --report
      rlm assemble root --model openai:gpt-5
    """
    if (file is None) != (kind == "root"):
        raise UsageError(
            f"rlm assemble {kind} takes {'no FILE' if file else 'a FILE: name it, or - for stdin'}"
        )
    prompt = _root(options) if file is None else _assemble(kind, read_input(file), label, options)
    show_prompt(prompt, as_json=options.json, report=report)


def _root(options: Options) -> AssembledPrompt:
    given = RootInput(
        task="",
        helpers=root_helpers(),
        handle=HandleFacts(chars=0, lines=0),
        contract=options.contract,
        model=options.model or "",
    )
    return root_system(given)


def _assemble(kind: str, data: Any, label: str | None, options: Options) -> AssembledPrompt:
    if kind == "card":
        return _card(data, options)
    if kind == "scoped":
        orders = data.pop("orders", None) if isinstance(data, dict) else None
        with SegmentStore.open(options.store) as store:
            return ScopedPrompt(store.adapter(label), orders=orders).assemble(data)
    if kind == "cited":
        return CitedPrompt().assemble(data)
    return TilePrompt().assemble(data) if kind == "tiles" else ChildPrompt().assemble(data)


def _card(data: Any, options: Options) -> AssembledPrompt:
    settings = options.files.card
    given = CardInput.from_json(data)
    if options.summary_model is not None:
        from rlm.runtime import RLM
        from rlm.settings import Settings

        rlm = RLM(
            "extractive", summary_model=options.summary_model, settings=Settings(facts=options.files.models)
        )
        with summarizer(rlm.summary_model) as (summarize, window):
            return CardPrompt(settings, summarizer=summarize, window=window).assemble(given)
    assembled = CardPrompt(settings).assemble(given)
    if settings.summary_model and assembled.condensed:
        say(
            "the history was condensed without a model. To use the model of [prompt.rlm]: "
            f"--summary-model {settings.summary_model}"
        )
    return assembled


def read_input(file: str) -> Any:
    """Return the JSON in a file or on stdin. Raises InputError."""
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
