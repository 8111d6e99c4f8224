"""The options that all commands with models share, declared once."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import Field, field, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from rlm.cli.config import ConfigOption, FolderMay, facts_in_force, is_default, mcp_servers_in_force
from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.console.exits import say
from rlm.cli.paths import AllowHostOption, ExcludeOption, read_sources
from rlm.cli.shorthand import misspelt_variables
from rlm.cli.store import StoreOption
from rlm.errors import UsageError
from rlm.escaping import terminal_line
from rlm.lazy_dataclass import dataclass
from rlm.limits import LimitOption, Limits, option_of_limit, slow_defaults
from rlm.models.registry import list_forms

if TYPE_CHECKING:
    from rlm.cli.console.progress import Progress
    from rlm.documents import Source
    from rlm.events import Observer, TextObserver
    from rlm.models.call_settings import CallSettings
    from rlm.runtime import RLM
    from rlm.settings import Settings

__all__ = [
    "McpOption",
    "OptionOption",
    "RunOptions",
    "SubOptionOption",
    "read_options",
    "takes_run_options",
]

_LONG_REPLY, _LONGEST_REPLY = 32_000, 200_000
"""Tokens. More than a reply usually has, and more than any model writes."""
_KEYS = "output, effort, thinking, temperature, seed, api, body.NAME, headers.NAME"
OptionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--option",
        metavar="KEY=VALUE",
        rich_help_panel="Models",
        help=f"What each call of the root model asks for: {_KEYS}. Repeatable.",
        show_default=False,
    ),
]
SubOptionOption = Annotated[
    list[str] | None,
    typer.Option(
        "--sub-option",
        metavar="KEY=VALUE",
        rich_help_panel="Models",
        help="The same for the children's model. Repeatable.",
        show_default=False,
    ),
]
McpOption = Annotated[
    list[str] | None,
    typer.Option(
        "--mcp",
        metavar="NAME",
        help="Code may call the tools of this MCP server, [mcp.NAME] of the settings file. Repeatable.",
        show_default=False,
    ),
]


def read_options(flag: str, pairs: Sequence[str] | None) -> CallSettings:
    """Return what `flag` sets. Raises ConfigurationError."""
    from rlm.models.call_settings import CallSettings

    return CallSettings.from_pairs(flag, pairs or ())


@dataclass(frozen=True, slots=True)
class RunOptions:
    """The values of the shared options, named as in settings files.

    Fields without an `RLM_*` variable can be set on the command line only. What `rlm.toml` of a folder may do
    with a field is declared here, by FolderMay; for limits, in `rlm.limits`.
    """

    model: Annotated[
        str | None,
        typer.Option(
            "--model",
            "-m",
            envvar="RLM_MODEL",
            rich_help_panel="Models",
            help=f"The root model: {list_forms(bare=False)}. Default: the provider whose key is set, else "
            "extractive.",
        ),
    ] = None
    sub_model: Annotated[
        list[str] | None,
        typer.Option(
            envvar="RLM_SUB_MODEL",
            rich_help_panel="Models",
            help="The model of the children. Default: the root model. Repeatable, as NAME=MODEL: code may "
            "choose by name, and the first is the default.",
        ),
    ] = None
    summary_model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_SUMMARY_MODEL",
            rich_help_panel="Models",
            help="The model that summarizes texts and older rounds. Default: the children's model.",
        ),
    ] = None
    option: OptionOption = None
    sub_option: SubOptionOption = None
    max_tokens: Annotated[
        int | None,
        typer.Option(
            min=1,
            rich_help_panel="Models",
            help="Maximum tokens of one reply, without thinking, of every model. "
            "Short for --option and --sub-option output=N.",
            show_default=False,
        ),
    ] = None
    exclude: ExcludeOption = None
    allow_host: AllowHostOption = None
    mcp: McpOption = None
    strategy: Annotated[
        Literal["auto", "rlm", "direct", "map-reduce"],
        typer.Option(
            envvar="RLM_STRATEGY",
            rich_help_panel="How it runs",
            help="rlm: rounds of code; direct: one call; map-reduce: every part is read, no code (for small "
            "models); auto chooses by size, question and window.",
        ),
        FolderMay.SET,
    ] = "auto"
    contract: Annotated[
        Literal["one-block", "strict"],
        typer.Option(
            envvar="RLM_CONTRACT",
            rich_help_panel="How it runs",
            help="The reply format of the root; strict refuses prose around the block.",
        ),
        FolderMay.SET,
    ] = "one-block"
    limits: Limits = field(default_factory=Limits)
    schema: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="How it runs",
            help="A JSON Schema for the answer.",
            show_default=False,
        ),
    ] = None
    slow: Annotated[
        bool,
        typer.Option(
            "--slow",
            envvar="RLM_SLOW",
            rich_help_panel="How it runs",
            help="Half the price; may take up to 24 hours. Every call waits in a batch of its provider.",
        ),
    ] = False
    dry_run: Annotated[
        bool,
        typer.Option(
            "--dry-run",
            rich_help_panel="How it runs",
            help="Estimate calls, tokens and cost. Asks no model and spends nothing.",
        ),
    ] = False
    sandbox: SandboxOption = "auto"
    trace: Annotated[
        Path | None,
        typer.Option(
            metavar="FILE",
            rich_help_panel="Output",
            help="Write all events to this file as JSON lines.",
            show_default=False,
        ),
    ] = None
    store: StoreOption = None
    no_document_cache: Annotated[
        bool,
        typer.Option(
            "--no-document-cache",
            envvar="RLM_NO_DOCUMENT_CACHE",
            rich_help_panel="Input",
            help="Keep no copy of the input, neither in the cache nor in the journal. "
            "To resume a run, its files are read again.",
        ),
    ] = False
    store_mb: Annotated[
        int,
        typer.Option(
            envvar="RLM_STORE_MB",
            rich_help_panel="Settings and journal",
            help="Size of the journal in MB. Above it the oldest finished runs are removed.",
        ),
    ] = 2_048
    cache: Annotated[
        bool,
        typer.Option(
            "--cache",
            envvar="RLM_CACHE",
            rich_help_panel="How it runs",
            help="Reuse children's answers of earlier runs.",
        ),
    ] = False
    check: Annotated[
        bool | None,
        typer.Option(
            "--check/--no-check",
            envvar="RLM_CHECK",
            rich_help_panel="How it runs",
            help="Let a model check that the citations support the answer. "
            "Default: in research and summaries.",
            show_default=False,
        ),
    ] = None
    as_json: Annotated[
        bool, typer.Option("--json", rich_help_panel="Output", help="Print the whole result as JSON.")
    ] = False
    quiet: Annotated[
        bool,
        typer.Option(
            "--quiet",
            "-q",
            rich_help_panel="Output",
            help="Print neither progress nor the account on stderr.",
        ),
    ] = False
    verbose: Annotated[
        bool,
        typer.Option(
            "--verbose",
            "-v",
            rich_help_panel="Output",
            help="Show each block of the root and what it printed.",
        ),
    ] = False
    config: ConfigOption = None

    @property
    def model_name(self) -> str:
        """The root model, or the default one if none is given."""
        from rlm.models import default_model

        return self.model or default_model(os.environ)

    @property
    def sub_models(self) -> dict[str, str]:
        """The models of the children by name; none for the root model. Raises ConfigurationError."""
        from rlm.children.sub_models import parse_sub_models

        return parse_sub_models(self.sub_model or ())

    def settings(self, ctx: typer.Context, *, runs_code: bool = True) -> Settings:
        """Return the settings. `runs_code`: models may write code, so the isolation level is chosen first."""
        from rlm.models.base import EXTRACTIVE
        from rlm.settings import RootSettings, Settings

        written_by_model = runs_code and self.model_name != EXTRACTIVE
        return Settings(
            strategy=self.strategy,
            sandbox=allowed_level(self.sandbox, model_written=written_by_model) if runs_code else "auto",
            store=self.store,
            document_cache=not self.no_document_cache,
            keep_input=not self.no_document_cache,
            store_mb=self.store_mb,
            cache=self.cache,
            check_support=self.check,
            slow=self.slow,
            root=RootSettings(contract=self.contract),
            options=read_options("--option", self._capped(self.option)),
            sub_options=read_options("--sub-option", self._capped(self.sub_option)),
            facts=facts_in_force(ctx),
        )

    def _capped(self, pairs: Sequence[str] | None) -> list[str]:
        """Return the options of a model with the cap of --max-tokens, which an `output` among them overrides.
        Raises UsageError for a number that must be meant for the whole run."""
        given = list(pairs or ())
        if self.max_tokens is None:
            return given
        if self.max_tokens > _LONGEST_REPLY:
            raise UsageError(
                f"--max-tokens {self.max_tokens} is the cap of one reply, and no model writes that much: "
                f"--max-total-tokens {self.max_tokens} limits the whole run"
            )
        if self.max_tokens > _LONG_REPLY:
            say("--max-tokens is the cap of one reply; --max-total-tokens limits the whole run")
        if any(pair.partition("=")[0].strip() == "output" for pair in given):
            return given
        return [f"output={self.max_tokens}", *given]

    def _offer_models(self) -> None:
        """Name a server on this machine to a user who has no key, or say in a terminal what a key would
        change. No server is used unasked."""
        from rlm.models.base import EXTRACTIVE

        if self.quiet or self.model is not None or self.model_name != EXTRACTIVE:
            return
        from rlm.models.local_servers import find_local_servers

        offered = [server for server in find_local_servers(os.environ) if server.models]
        if offered:
            name = terminal_line(offered[0].models[0])
            typer.echo(f"{offered[0].title} runs on this machine: --model {name} asks it", err=True)
        elif sys.stderr.isatty():
            typer.echo(
                "no key is set, so the answer will be extracts of the text. For an answer in words: "
                "export OPENAI_API_KEY=… (rlm models lists all), or --model ollama:NAME",
                err=True,
            )

    @contextmanager
    def observe(self) -> Iterator[tuple[Progress, list[Observer]]]:
        """Give the progress display, and the observers: the display and the trace file."""
        from rlm.cli.console.progress import Progress
        from rlm.trace import TraceFile

        self._offer_models()
        with ExitStack() as stack:
            progress = stack.enter_context(
                Progress(quiet=self.quiet, seconds=self.limits.max_seconds, verbose=self.verbose)
            )
            observers: list[Observer] = [progress.on_event]
            if self.trace is not None:
                observers.append(stack.enter_context(TraceFile(self.trace)).on_event)
            yield progress, observers

    def rlm(
        self,
        ctx: typer.Context,
        observers: list[Observer],
        *,
        runs_code: bool = True,
        text_observers: Sequence[TextObserver] = (),
    ) -> RLM:
        """Return the runtime with these options. Raises ConfigurationError, for example for a missing key."""
        from rlm.cli.telemetry import start_telemetry
        from rlm.runtime import RLM

        start_telemetry()
        return RLM(
            self.model,
            sub_models=self.sub_models,
            summary_model=self.summary_model,
            limits=self.limits,
            settings=self.settings(ctx, runs_code=runs_code),
            mcp_servers=mcp_servers_in_force(ctx, self.mcp or ()),
            observe=observers,
            observe_text=text_observers,
        )

    def sources(self, paths: Sequence[str] | None, **messages: str) -> list[Source]:
        """Return the sources that PATHs name, or standard input. Raises UsageError (see `read_sources`)."""
        return read_sources(paths, self.exclude, self.allow_host, **messages)


def takes_run_options(
    *,
    each: str = "",
    without_effect: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `options: RunOptions` of a command by all shared options.

    `each` is what the limits apply to (`each task`). An option in `without_effect` is ignored, with a note
    that gives the reason. One in `refused` raises UsageError with the reason. Neither is in
    the command's help.
    """
    return lambda command: _CommandWithOptions(command, each, without_effect or {}, refused or {})


class _CommandWithOptions:
    """A command as typer sees it: its signature has the shared options in place of `options`."""

    def __init__(
        self, command: Callable[..., None], each: str, ignored: Mapping[str, str], refused: Mapping[str, str]
    ) -> None:
        self._command = command
        self._ignored = ignored
        self._refused = refused
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name == "options":
                parameters += _parameters(each, {**ignored, **refused})
            else:
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
        self.__name__ = command.__name__
        self.__doc__ = command.__doc__
        self.__annotations__ = {one.name: one.annotation for one in parameters}
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, ctx: typer.Context, **values: Any) -> None:
        variables = [one.envvar for one in ctx.command.params if isinstance(one.envvar, str)]
        for name, meant in misspelt_variables(os.environ, variables):
            say(f"{name} is no variable of rlm and has no effect: did you mean {meant}?")
        facts_in_force(ctx)  # a folder that may not set what it sets is refused before anything is done
        limits = {limit.name: values.pop(limit.name) for limit, _ in _limit_options()}
        if values["slow"]:
            limits |= {name: value for name, value in slow_defaults().items() if is_default(ctx, name)}
        own = {one.name: values.pop(one.name) for one in fields(RunOptions) if one.name != "limits"}
        for name in (*self._ignored, *self._refused):
            source = ctx.get_parameter_source(name)
            if source is None or source.name != "COMMANDLINE":
                continue
            flag = f"--{name.replace('_', '-')}"
            if name in self._refused:
                raise UsageError(f"{flag} cannot be used with rlm {ctx.info_name}: {self._refused[name]}")
            say(f"{flag} has no effect here: {self._ignored[name]}")
        self._command(ctx, **values, options=RunOptions(**own, limits=Limits(**limits)))


def _limit_options() -> Iterator[tuple[Field[Any], LimitOption]]:
    """Yield each limit that has an option, and the option."""
    for limit in fields(Limits):
        option = option_of_limit(limit)
        if option is not None:
            yield limit, option


def _parameters(each: str, unused: Mapping[str, str]) -> Iterator[inspect.Parameter]:
    """Yield the shared options as parameters, with this command's help texts."""
    hints = get_type_hints(RunOptions, include_extras=True)
    for one in fields(RunOptions):
        if one.name == "limits":
            yield from _limit_parameters(each, unused)
            continue
        option, *extras = hints[one.name].__metadata__
        yield _parameter(one.name, one.default, hints[one.name].__origin__, (copy(option), *extras), unused)


def _limit_parameters(each: str, unused: Mapping[str, str]) -> Iterator[inspect.Parameter]:
    kinds = get_type_hints(Limits)
    for limit, declared in _limit_options():
        name, text = limit.name, declared.help
        if each and name.startswith("max_"):
            text = f"{text.rstrip('.')}, {each}."
        option = typer.Option(envvar=f"RLM_{name.upper()}", help=text, rich_help_panel="Limits")
        extras = (option, FolderMay.LOWER) if declared.folder_may_lower else (option,)
        yield _parameter(name, limit.default, kinds[limit.name], extras, unused)


def _parameter(
    name: str, default: Any, kind: Any, extras: tuple[Any, ...], unused: Mapping[str, str]
) -> inspect.Parameter:
    """Return the parameter. `extras` are its typer.Option and its marks."""
    extras[0].hidden = name in unused
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=default, annotation=Annotated[kind, *extras]
    )
