"""The commands, and the one place that turns an error into a line and an exit code.

A command's module is imported when the command is called: each of them imports another part of rlm.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from importlib import import_module
from typing import Annotated, Any, NamedTuple

import typer
from typer.core import TyperGroup

from rlm.cli.command import format_sections, use_for_all
from rlm.cli.console.exits import Exit, exit_for, say
from rlm.cli.shorthand import resolve_shorthand
from rlm.version import __version__

__all__ = ["app", "run"]

_ASK, _BACK, _SERVE, _SET_UP, _MORE = "Ask", "Look back", "Serve", "Set up", "More"
"""The sections of the help."""


class _Entry(NamedTuple):
    """A command: its section and its line in the help, and where it is."""

    section: str
    help: str
    place: str


_COMMANDS = {
    "ask": _Entry(_ASK, "Answer a question over any amount of text.", "ask:ask"),
    "chat": _Entry(_ASK, "Ask questions one after another about the same text.", "chat:chat"),
    "search": _Entry(_ASK, "Show the passages that match a query best.", "search:search"),
    "summarize": _Entry(_ASK, "Summarize a chat, a card, a log or documents.", "summarize:summarize"),
    "research": _Entry(_ASK, "Research a task and report with verified sources.", "research:research"),
    "compare": _Entry(_ASK, "Answer one question in four ways, side by side.", "compare:compare"),
    "batch": _Entry(_ASK, "Run many tasks, with one line of results for each.", "batch:batch"),
    "show": _Entry(_BACK, "Show the rounds, children and answer of a run.", "show:show"),
    "view": _Entry(_BACK, "Show a run in the browser, or write it to a file.", "view:view"),
    "resume": _Entry(_BACK, "Resume a run that was interrupted or failed.", "resume:resume"),
    "replay": _Entry(_BACK, "Replay a run offline and compare its answer.", "resume:replay"),
    "export": _Entry(
        _BACK,
        "Export runs as lines of JSON.",
        "export:export",
    ),
    "runs": _Entry(_BACK, "List or remove runs.", "runs:runs_app"),
    "mcp": _Entry(_SERVE, "Serve the Model Context Protocol.", "mcp:mcp"),
    "serve": _Entry(_SERVE, "Serve questions over HTTP, as OpenAI's API.", "serve:serve"),
    "doctor": _Entry(_SET_UP, "Check whether runs work on this machine.", "doctor:doctor"),
    "models": _Entry(
        _SET_UP,
        "List providers, keys that are set, windows and prices.",
        "models:models",
    ),
    "cache": _Entry(_SET_UP, "Show how large the caches are, or empty them.", "cache:cache"),
    "init": _Entry(_SET_UP, "Write a settings file with every default as a comment.", "init:init"),
    "sandbox": _Entry(_MORE, "Run code in the sandbox.", "sandbox:sandbox_app"),
    "assemble": _Entry(_MORE, "Assemble a prompt within its token budget.", "assemble:assemble"),
    "segments": _Entry(_MORE, "Store prompt segments with versions and labels.", "segments:segments_app"),
}


class _Loaded(Mapping[str, Any]):
    """The commands by name. One is imported when it is taken."""

    def __init__(self) -> None:
        self._loaded: dict[str, Any] = {}

    def __getitem__(self, name: str) -> Any:
        if name not in self._loaded:
            module, _, attribute = _COMMANDS[name].place.partition(":")
            command = getattr(import_module(f"rlm.cli.commands.{module}"), attribute)
            outer = typer.Typer(add_completion=False, rich_markup_mode=None)
            outer.callback()(lambda: None)
            if isinstance(command, typer.Typer):
                outer.add_typer(command, name=name)
            else:
                outer.command(name)(command)
            use_for_all(outer)
            self._loaded[name] = typer.main.get_group(outer).commands[name]
        return self._loaded[name]

    def __iter__(self) -> Iterator[str]:
        return iter(_COMMANDS)

    def __len__(self) -> int:
        return len(_COMMANDS)


class _Commands(TyperGroup):
    """Imports the command that is called. Reports an interrupt, also while its options are read."""

    def __init__(self, **options: Any) -> None:
        super().__init__(**{**options, "commands": {}})
        self.commands: Any = _Loaded()

    def make_context(self, *args: Any, **options: Any) -> Any:
        with _report_interrupt():
            return super().make_context(*args, **options)

    def parse_args(self, ctx: Any, args: list[str]) -> list[str]:
        return super().parse_args(ctx, resolve_shorthand(args, self.commands))

    def format_commands(self, ctx: Any, formatter: Any) -> None:
        format_sections(formatter, ((entry.section, (name, entry.help)) for name, entry in _COMMANDS.items()))

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
        app()
    except SystemExit as error:
        return error.code if isinstance(error.code, int) else Exit.OK
    except Exception as error:
        # The one boundary: our own errors become a line, any other stays a traceback.
        return exit_for(error)
    return Exit.OK
