"""The commands, and the one place that turns an error into a line and an exit code."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Annotated, Any

import typer
from typer.core import TyperGroup

from rlm.cli.command import format_sections, use_for_all
from rlm.cli.commands.agents.mcp import mcp
from rlm.cli.commands.agents.skill import skill
from rlm.cli.commands.ask import ask
from rlm.cli.commands.batch import batch
from rlm.cli.commands.bench import bench
from rlm.cli.commands.compare import compare
from rlm.cli.commands.doctor import doctor
from rlm.cli.commands.journal.export import export
from rlm.cli.commands.journal.resume import replay, resume
from rlm.cli.commands.journal.runs import runs_app
from rlm.cli.commands.journal.show import show
from rlm.cli.commands.models import models
from rlm.cli.commands.prompts.app import prompts_app
from rlm.cli.commands.prompts.assemble import assemble_app
from rlm.cli.commands.prompts.segments.app import segments_app
from rlm.cli.commands.research import research
from rlm.cli.commands.sandbox import sandbox_app
from rlm.cli.commands.search import search
from rlm.cli.commands.serve import serve
from rlm.cli.commands.settings.init import init
from rlm.cli.commands.summarize import summarize
from rlm.cli.commands.view import view
from rlm.cli.commands.waiting import waiting
from rlm.cli.console.exits import Exit, exit_for, say
from rlm.cli.shorthand import resolve_shorthand
from rlm.version import __version__

__all__ = ["app", "run"]


class _Commands(TyperGroup):
    """Reports an interrupt of any command, also while its options are read."""

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _report_interrupt():
            return super().make_context(*args, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, resolve_shorthand(args, self.commands))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        shown = [(name, one) for name, one in self.commands.items() if not one.hidden]
        room = formatter.width - 6 - max(len(name) for name, _ in shown)
        rows = [
            (str(getattr(one, "rich_help_panel", "")), (name, one.get_short_help_str(room)))
            for name, one in shown
        ]
        format_sections(formatter, rows)

    def invoke(self, ctx: Any) -> Any:
        with _report_interrupt():
            return super().invoke(ctx)


@contextmanager
def _report_interrupt() -> Iterator[None]:
    try:
        yield
    except KeyboardInterrupt:
        say("interrupted")
        raise typer.Exit(Exit.INTERRUPTED) from None


app = typer.Typer(
    cls=_Commands,
    name="rlm",
    no_args_is_help=True,
    pretty_exceptions_enable=False,
    context_settings={"help_option_names": ["-h", "--help"]},
    rich_markup_mode=None,
)

_ASK, _BACK, _SERVE, _SET_UP, _MORE = "Ask", "Look back", "Serve", "Set up", "More"
"""The sections of the help."""

for _section, _command in (
    (_ASK, ask),
    (_ASK, search),
    (_ASK, summarize),
    (_ASK, research),
    (_ASK, compare),
    (_ASK, batch),
    (_BACK, show),
    (_BACK, view),
    (_BACK, resume),
    (_BACK, replay),
    (_BACK, export),
    (_SERVE, serve),
    (_SERVE, mcp),
    (_SERVE, skill),
    (_SET_UP, doctor),
    (_SET_UP, models),
    (_SET_UP, init),
):
    app.command(rich_help_panel=_section)(_command)
app.command(rich_help_panel=_MORE)(bench)
runs_app.command()(waiting)
app.add_typer(runs_app, name="runs", rich_help_panel=_BACK)
app.add_typer(sandbox_app, name="sandbox", rich_help_panel=_MORE)
app.add_typer(prompts_app, name="prompts", rich_help_panel=_MORE)
app.add_typer(assemble_app, name="assemble", hidden=True)
app.add_typer(segments_app, name="segments", hidden=True)
use_for_all(app)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"rlm {__version__}")
        raise typer.Exit


@app.callback()
def options(
    version: Annotated[
        bool,
        typer.Option("--version", "-V", help="Print the version.", callback=_print_version, is_eager=True),
    ] = False,
) -> None:
    """Answer questions over text far larger than any model's context window, with verified citations.

    `rlm QUESTION PATH…` is short for `rlm ask QUESTION PATH…`.

    \b
    Examples:
      rlm "What does the crane of the northern yard cost?" examples/offers
      rlm summarize examples/chat.md --tokens 500
      rlm doctor
    """


def run() -> int:
    """Run the command line and return its exit code."""
    try:
        return _run()
    finally:
        if "rlm.cli.telemetry" in sys.modules:
            from rlm.cli.telemetry import finish_telemetry

            finish_telemetry()


def _run() -> int:
    try:
        app()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Exit.OK
    except Exception as error:
        # The one boundary: our own errors become a line, any other stays a traceback.
        return exit_for(error)
    return Exit.OK
