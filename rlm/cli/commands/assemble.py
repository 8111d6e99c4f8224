"""`rlm assemble`: a prompt out of a JSON file. The commands share their reading and their printing."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from rlm.cli.commands.segments import SegmentStoreOption
from rlm.cli.config import ConfigOption, settings_in_force
from rlm.cli.console.exits import say
from rlm.cli.console.render_result import json_bytes, printable

if TYPE_CHECKING:
    from rlm.prompts import AssembledPrompt

__all__ = ["assemble_app"]

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
    """Assemble a prompt within its budget, and say what went in.

    Nothing is asked of a model, unless --summary-model names one for a card's long history.

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
            help="Summarizes a history over its threshold. Default: telling sentences, without a model.",
        ),
    ] = None,
    as_json: JsonOption = False,
    report: ReportOption = False,
    config: ConfigOption = None,
) -> None:
    """A development card: instructions for its stage, history, context by priority.

    \b
    Examples:
      rlm assemble card examples/card.json --report
      rlm assemble card card.json --config rlm.toml --json
    """
    from rlm.prompts import CardInput, CardPrompt

    settings = settings_in_force(ctx).card
    given = CardInput.from_json(read_input(file))
    if summary_model is None:
        assembled = CardPrompt(settings).assemble(given)
        if settings.summary_model and assembled.condensed:
            say(
                f"the history was condensed without a model: --summary-model {settings.summary_model} "
                "asks the one that [prompt.rlm] names"
            )
    else:
        from rlm.cli.summarizer import summarizer

        with summarizer(summary_model, os.environ) as summarize:
            assembled = CardPrompt(settings, summarizer=summarize).assemble(given)
    show_prompt(assembled, as_json=as_json, report=report)


@assemble_app.command("cited")
def cited(
    file: FileArgument, as_json: JsonOption = False, report: ReportOption = False, config: ConfigOption = None
) -> None:
    """Retrieved packs under citation markers: a system and a user message.

    \b
    Example:
      rlm assemble cited examples/cited.json --json
    """
    from rlm.prompts import CitedPrompt

    show_prompt(CitedPrompt().assemble(read_input(file)), as_json=as_json, report=report)


@assemble_app.command("tiles")
def tiles(
    file: FileArgument, as_json: JsonOption = False, report: ReportOption = False, config: ConfigOption = None
) -> None:
    """Scored tiles, the critical first, with warnings for critical domains left bare.

    \b
    Example:
      rlm assemble tiles examples/tiles.json --report
    """
    from rlm.prompts import TilePrompt

    show_prompt(TilePrompt().assemble(read_input(file)), as_json=as_json, report=report)


@assemble_app.command("child")
def child(
    file: FileArgument, as_json: JsonOption = False, report: ReportOption = False, config: ConfigOption = None
) -> None:
    """A child call: one task and one slice between its boundary lines.

    \b
    Example:
      rlm assemble child examples/child.json
    """
    from rlm.prompts import ChildPrompt

    show_prompt(ChildPrompt().assemble(read_input(file)), as_json=as_json, report=report)


@assemble_app.command("root")
def root(
    model: Annotated[
        str, typer.Option(help="Adds the words for this model's family.", show_default=False)
    ] = "",
    contract: Annotated[
        Literal["one-block", "strict"], typer.Option(help="Which reply contract.")
    ] = "one-block",
    as_json: JsonOption = False,
    report: ReportOption = False,
    config: ConfigOption = None,
) -> None:
    """The root model's instructions, as every run begins with them.

    \b
    Example:
      rlm assemble root --model openai:gpt-5
    """
    from rlm.prompts import HandleFacts, HelperDoc, RootInput, RootPrompt
    from rlm.sandbox.in_kernel.helper_api.registry import HELPERS

    given = RootInput(
        task="",
        helpers=tuple(HelperDoc(helper.call, helper.summary, helper.fields) for helper in HELPERS),
        handle=HandleFacts(chars=0, lines=0),
        contract=contract,
        model=model,
    )
    show_prompt(RootPrompt().system(given), as_json=as_json, report=report)


def read_input(file: str) -> Any:
    """The JSON in a file or on stdin. Raises InputError."""
    from rlm.prompts import InputError

    name = "stdin" if file == "-" else file
    try:
        data = sys.stdin.buffer.read() if file == "-" else Path(file).read_bytes()
        return json.loads(data)
    except OSError as error:
        raise InputError(name, f"can't be read: {error.strerror}", "check the path") from None
    except (UnicodeDecodeError, ValueError) as error:
        raise InputError(name, f"is not JSON ({error})", "give one JSON object") from None


def show_prompt(prompt: AssembledPrompt, *, as_json: bool, report: bool) -> None:
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


@assemble_app.command()
def scoped(
    file: FileArgument,
    store: SegmentStoreOption = None,
    label: Annotated[
        str | None,
        typer.Option(
            help="Use the versions under this label; segments without it are left out.", show_default=False
        ),
    ] = None,
    as_json: JsonOption = False,
    report: ReportOption = False,
) -> None:
    """Stored layers by scope, then those of the moment, within a budget.

    \b
    Examples:
      rlm segments import examples/segments.json --store demo.db
      rlm assemble scoped examples/scoped.json --store demo.db --report
      rlm assemble scoped turn.json --label production --json
    """
    from rlm.prompts import ScopedInput, ScopedPrompt
    from rlm.prompts.segments import SegmentStore

    given = ScopedInput.from_json(read_input(file))
    with SegmentStore.open(store) as opened:
        prompt = ScopedPrompt(opened.adapter(label)).assemble(given)
    show_prompt(prompt, as_json=as_json, report=report)
