"""The settings of a command: the options that it takes, and their values.

The precedence is: option, --set, `RLM_*` variable, `./rlm.toml` (or the file of --config), the user's file,
default. What there is to set are the rows of `rlm.settings_table`.
"""

from __future__ import annotations

import difflib
import inspect
import os
import sys
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from rlm.cli.consent import allowed_level
from rlm.cli.console.exits import say
from rlm.cli.paths import read_sources
from rlm.cli.shorthand import misspelt_variables
from rlm.config_file.loading import FileSettings, load_settings
from rlm.config_file.settings_file import settings_files
from rlm.errors import ConfigurationError, UsageError
from rlm.escaping import terminal_line
from rlm.limits import Limits
from rlm.settings_table import CALL_OPTIONS, JOURNAL, LIMITS, MODELS, SETTINGS, Setting

if TYPE_CHECKING:
    from rlm.cli.console.progress import Progress
    from rlm.documents import Source
    from rlm.events import Observer, TextObserver
    from rlm.models.call_settings import CallSettings
    from rlm.runtime import RLM
    from rlm.settings import Settings

__all__ = ["Options", "read_files", "takes"]

_CONFIG = typer.Option(
    "--config",
    rich_help_panel=JOURNAL,
    help="A settings file to use instead of ./rlm.toml. It may set everything.",
    show_default=False,
)
_SET = typer.Option(
    "--set",
    metavar="KEY=VALUE",
    rich_help_panel=JOURNAL,
    help="Any setting of rlm.toml, also those without an option (rlm init lists them). Repeatable.",
    show_default=False,
)


def read_files(config: str | None = None) -> FileSettings:
    """Return the settings of the user's file, and of `config`, RLM_CONFIG or ./rlm.toml."""
    explicit = config or os.environ.get("RLM_CONFIG")
    return load_settings(settings_files(Path(explicit) if explicit else None, os.environ, Path.cwd()))


class Options:
    """The settings in force, as attributes by their names, and what is made of them."""

    def __init__(self, values: Mapping[str, Any], files: FileSettings) -> None:
        self._values = values
        self.files = files

    def __getattr__(self, name: str) -> Any:
        try:
            return self._values[name]
        except KeyError:
            raise AttributeError(name) from None

    def changed(self, **values: Any) -> Options:
        """Return the options with other values."""
        return Options({**self._values, **values}, self.files)

    @property
    def limits(self) -> Limits:
        """The limits of a run."""
        return Limits(
            **{row.name: self._values[row.name] for row in SETTINGS.values() if row.group == LIMITS}
        )

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

    def call_settings(self, name: Literal["option", "sub_option"]) -> CallSettings:
        """Return what calls of the root's model ask for, or of the children's. Raises ConfigurationError."""
        from rlm.models.call_settings import CallSettings

        return CallSettings.from_pairs(CALL_OPTIONS[name].flag, self._values[name] or ())

    def level(self, *, model_written: bool = True) -> int | Literal["auto"]:
        """Return the isolation level. The user is asked where only a weak one works."""
        return allowed_level(self.sandbox, model_written=model_written)

    def settings(self, *, runs_code: bool = True) -> Settings:
        """Return the settings. `runs_code`: models may write code, so the isolation level is chosen first."""
        from rlm.models.base import EXTRACTIVE
        from rlm.settings import RootSettings, Settings

        return Settings(
            strategy=self.strategy,
            sandbox=self.level(model_written=self.model_name != EXTRACTIVE) if runs_code else "auto",
            store=self.store,
            document_cache=not self.no_document_cache,
            keep_input=not self.no_document_cache,
            store_mb=self.store_mb,
            cache=self.cache,
            check_support=self.check,
            slow=self.slow,
            root=RootSettings(contract=self.contract),
            options=self.call_settings("option"),
            sub_options=self.call_settings("sub_option"),
            facts=self.files.models,
        )

    def arguments(self, settings: Settings) -> dict[str, Any]:
        """Return the arguments of an RLM with these settings."""
        return {
            "model": self.model,
            "sub_models": self.sub_models,
            "summary_model": self.summary_model,
            "limits": self.limits,
            "settings": settings,
            "mcp_servers": self.files.servers(self.mcp or (), os.environ),
        }

    def rlm(
        self,
        observers: list[Observer],
        *,
        runs_code: bool = True,
        text_observers: Sequence[TextObserver] = (),
    ) -> RLM:
        """Return the runtime with these options. Raises ConfigurationError, for example for a missing key."""
        from rlm.cli.telemetry import start_telemetry
        from rlm.runtime import RLM

        start_telemetry()
        arguments = self.arguments(self.settings(runs_code=runs_code))
        return RLM(**arguments, observe=observers, observe_text=text_observers)

    @contextmanager
    def observe(self) -> Iterator[tuple[Progress, list[Observer]]]:
        """Give the progress display, and the observers: the display and the trace file."""
        from rlm.cli.console.progress import Progress
        from rlm.trace import TraceFile

        self._offer_models()
        with ExitStack() as stack:
            progress = stack.enter_context(
                Progress(quiet=self.quiet, seconds=self.max_seconds, verbose=self.verbose)
            )
            observers: list[Observer] = [progress.on_event]
            if self.trace is not None:
                observers.append(stack.enter_context(TraceFile(Path(self.trace))).on_event)
            yield progress, observers

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

    def sources(self, paths: Sequence[str] | None, **messages: str) -> list[Source]:
        """Return the sources that PATHs name, or standard input. Raises UsageError (see `read_sources`)."""
        return read_sources(paths, self.exclude, self.allow_host, **messages)


def takes(
    *groups: str, without: Collection[str] = (), tables: Collection[str] = ()
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Replace the parameter `options: Options` of a command by the options of these groups, or of single
    settings by name. A command that takes MODELS uses all settings, those without an option, too. `tables`
    are the tables of settings files that it uses."""
    rows = [
        row
        for row in (*SETTINGS.values(), *CALL_OPTIONS.values())
        if (row.group in groups or row.name in groups) and row.name not in without
    ]
    used = {*SETTINGS, "models"} if MODELS in groups else {row.name for row in rows}

    def replace_options(command: Callable[..., None]) -> Callable[..., None]:
        def run(*, config: str | None, pairs: list[str] | None, **values: Any) -> None:
            given = {row.name: values.pop(row.name) for row in rows if row.has_flag}
            command(**values, options=_resolve(given, pairs or (), config, used | set(tables)))

        hints = get_type_hints(command, include_extras=True)
        parameters = [
            parameter.replace(annotation=hints[name])
            for name, parameter in inspect.signature(command).parameters.items()
            if name != "options"
        ]
        parameters += [_parameter(row.name, _kind_of(row), _option_of(row)) for row in rows if row.has_flag]
        parameters += [
            _parameter("config", str, _CONFIG),
            _parameter("pairs", list[str], _SET),
        ]
        run.__name__, run.__doc__ = command.__name__, command.__doc__
        run.__signature__ = inspect.Signature(parameters)  # type: ignore[attr-defined]
        run.__annotations__ = {one.name: one.annotation for one in parameters}
        return run

    return replace_options


def _resolve(
    given: Mapping[str, Any], pairs: Sequence[str], config: str | None, used: Collection[str]
) -> Options:
    """Return the values in force. Raises ConfigurationError, also if a folder sets what it may not and no
    option or variable overrides it."""
    files = read_files(config)
    for name, meant in misspelt_variables(os.environ, [row.variable for row in SETTINGS.values()]):
        say(f"{name} is no variable of rlm and has no effect: did you mean {meant}?")
    chosen = _from_variables() | _from_pairs(pairs, used)
    chosen |= {
        name: value
        for name, value in given.items()
        if value is not None and value is not False and value != []
    }
    for name, value in chosen.items():
        row = SETTINGS.get(name)
        fault = None if row is None else row.fault(value)
        if row is not None and fault is not None:
            raise ConfigurationError(f"{row.flag} {fault}")
    files.check(name for name in used if name not in chosen)
    chosen = {**files.values, **chosen}
    defaults = {row.name: row.default for row in (*SETTINGS.values(), *CALL_OPTIONS.values())}
    if chosen.get("slow"):
        defaults |= {row.name: row.slow for row in SETTINGS.values() if row.slow is not None}
    return Options({**defaults, **chosen}, files)


def _from_variables() -> dict[str, Any]:
    values = {}
    for row in SETTINGS.values():
        text = os.environ.get(row.variable, "")
        if text:
            values[row.name] = row.parse(text)
            fault = row.fault(values[row.name])
            if fault is not None:
                raise ConfigurationError(f"the variable {row.variable} {fault}")
    return values


def _from_pairs(pairs: Sequence[str], used: Collection[str]) -> dict[str, Any]:
    values = {}
    for pair in pairs:
        key, equals, text = pair.partition("=")
        name = key.strip().replace("-", "_")
        if not equals:
            raise UsageError(f"--set {pair[:60]!r} has no value: write --set KEY=VALUE")
        if name not in SETTINGS:
            close = difflib.get_close_matches(name, SETTINGS, 1)
            hint = f"did you mean {close[0]}?" if close else "rlm init lists the settings"
            raise UsageError(f"--set {name[:60]!r} is no setting: {hint}")
        if name not in used:
            raise UsageError(f"--set {name} has no effect on this command: leave it out")
        values[name] = SETTINGS[name].parse(text)
    return values


def _kind_of(row: Setting) -> Any:
    if row.is_list:
        return list[str]
    return Literal[row.kind] if isinstance(row.kind, tuple) else row.kind


def _option_of(row: Setting) -> Any:
    shown = row.default not in (None, False)
    return typer.Option(
        *(flag for flag in (row.flag, row.short) if flag),
        metavar=row.metavar or None,
        rich_help_panel=row.group,
        help=f"{row.help} Default: {row.default}." if shown else row.help,
        show_default=False,
    )


def _parameter(name: str, kind: Any, option: Any) -> inspect.Parameter:
    return inspect.Parameter(
        name, inspect.Parameter.KEYWORD_ONLY, default=None, annotation=Annotated[kind | None, option]
    )
