"""The options that all commands which ask models have in common: declared once, for every one of them."""

from __future__ import annotations

import inspect
import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager
from copy import copy
from dataclasses import dataclass, fields
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, get_type_hints

import typer

from rlm.cli.config import ConfigOption, settings_in_force
from rlm.cli.consent import SandboxOption, allowed_level
from rlm.cli.console.exits import say
from rlm.cli.store import StoreOption
from rlm.errors import UsageError
from rlm.models.registry import list_forms

if TYPE_CHECKING:
    from rlm.cli.console.progress import Progress
    from rlm.documents import Source
    from rlm.events import Observer
    from rlm.runtime import RLM
    from rlm.settings import Limits, Settings

__all__ = ["PathsArgument", "RunOptions", "takes_run_options"]

PathsArgument = Annotated[
    list[str],
    typer.Argument(metavar="PATH…", help="Files, folders, globs, or - for stdin.", show_default=False),
]

_LIMITS = frozenset({"max_rounds", "max_depth", "max_calls", "max_tokens", "max_cost", "max_seconds"})


@dataclass(frozen=True, slots=True)
class RunOptions:
    """What a command was given of them. Fields are named as in settings files; those without an `RLM_*`
    variable stand on the command line alone."""

    model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_MODEL",
            help=f"The root: {list_forms(bare=False)}. Default: the one whose key is set, else extractive.",
        ),
    ] = None
    sub_model: Annotated[
        str | None, typer.Option(envvar="RLM_SUB_MODEL", help="The children's model. Default: the root's.")
    ] = None
    summary_model: Annotated[
        str | None,
        typer.Option(
            envvar="RLM_SUMMARY_MODEL",
            help="Writes summaries, folds older rounds near the window. Default: the children's.",
        ),
    ] = None
    exclude: Annotated[
        list[str] | None, typer.Option(help="Leave out what matches, as in .gitignore; may be repeated.")
    ] = None
    strategy: Annotated[
        Literal["auto", "rlm", "direct"],
        typer.Option(envvar="RLM_STRATEGY", help="auto: short inputs are answered by one call."),
    ] = "auto"
    contract: Annotated[
        Literal["one-block", "strict"],
        typer.Option(envvar="RLM_CONTRACT", help="strict: prose around the block is refused."),
    ] = "one-block"
    max_rounds: Annotated[int, typer.Option(envvar="RLM_MAX_ROUNDS", help="Rounds of a root.")] = 30
    max_depth: Annotated[
        int, typer.Option(envvar="RLM_MAX_DEPTH", help="How deep sub-RLMs may go; 0: none, children alone.")
    ] = 1
    max_calls: Annotated[int, typer.Option(envvar="RLM_MAX_CALLS", help="Child calls.")] = 1_000
    max_tokens: Annotated[int, typer.Option(envvar="RLM_MAX_TOKENS", help="Tokens, all in all.")] = 10_000_000
    max_cost: Annotated[float, typer.Option(envvar="RLM_MAX_COST", help="US dollars.")] = 5.0
    max_seconds: Annotated[float, typer.Option(envvar="RLM_MAX_SECONDS", help="Seconds.")] = 1_800.0
    cell_seconds: Annotated[
        float, typer.Option(envvar="RLM_CELL_SECONDS", help="Seconds of computing of one block.")
    ] = 120.0
    concurrency: Annotated[
        int, typer.Option(envvar="RLM_CONCURRENCY", help="Calls in flight at a provider.")
    ] = 16
    schema: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="A JSON Schema that the answer must match.", show_default=False),
    ] = None
    dry_run: Annotated[
        bool, typer.Option("--dry-run", help="Say what it would take; ask no model, spend nothing.")
    ] = False
    sandbox: SandboxOption = "auto"
    trace: Annotated[
        Path | None,
        typer.Option(metavar="FILE", help="Write what happens there, as JSON lines.", show_default=False),
    ] = None
    store: StoreOption = None
    no_cache: Annotated[
        bool,
        typer.Option(
            "--no-cache",
            envvar="RLM_NO_CACHE",
            help="Keep no copy of large inputs from run to run, and use none that is kept.",
        ),
    ] = False
    store_mb: Annotated[
        int, typer.Option(envvar="RLM_STORE_MB", help="Over it the journal loses its oldest finished runs.")
    ] = 2_048
    cache: Annotated[
        bool, typer.Option("--cache", envvar="RLM_CACHE", help="Take children's answers of earlier runs.")
    ] = False
    as_json: Annotated[bool, typer.Option("--json", help="Print the whole outcome as JSON.")] = False
    quiet: Annotated[bool, typer.Option("--quiet", "-q", help="No progress, no account on stderr.")] = False
    config: ConfigOption = None

    @property
    def model_name(self) -> str:
        """The root's model, the default one where none is given."""
        from rlm.models import default_model

        return self.model or default_model(os.environ)

    def limits(self) -> Limits:
        """Raises ConfigurationError for a value that can't be."""
        from rlm.settings import Limits

        return Limits(
            rounds=self.max_rounds,
            depth=self.max_depth,
            sub_calls=self.max_calls,
            tokens=self.max_tokens,
            cost_usd=self.max_cost,
            seconds=self.max_seconds,
            cell_seconds=self.cell_seconds,
            concurrency=self.concurrency,
        )

    def settings(self, ctx: typer.Context, *, runs_code: bool = True) -> Settings:
        """`runs_code`: models may write code, so isolation is settled first."""
        from rlm.models.base import EXTRACTIVE
        from rlm.settings import RootSettings, Settings

        written_by_model = runs_code and self.model_name != EXTRACTIVE
        return Settings(
            strategy=self.strategy,
            sandbox=allowed_level(self.sandbox, model_written=written_by_model) if runs_code else "auto",
            store=self.store,
            document_cache=not self.no_cache,
            store_mb=self.store_mb,
            cache=self.cache,
            root=RootSettings(contract=self.contract),
            facts=settings_in_force(ctx).models,
        )

    @contextmanager
    def watched(self) -> Iterator[tuple[Progress, list[Observer]]]:
        """The progress of a run on stderr, and who is to be told of it: that, and the trace file."""
        from rlm.cli.console.progress import Progress
        from rlm.trace import TraceFile

        with ExitStack() as stack:
            progress = stack.enter_context(Progress(quiet=self.quiet, seconds=self.max_seconds))
            observers: list[Observer] = [progress.on_event]
            if self.trace is not None:
                observers.append(stack.enter_context(TraceFile(self.trace)).on_event)
            yield progress, observers

    def rlm(self, ctx: typer.Context, observers: list[Observer], *, runs_code: bool = True) -> RLM:
        """The runtime that these options make. Raises ConfigurationError, for a missing key, say."""
        from rlm.runtime import RLM

        return RLM(
            self.model,
            sub_model=self.sub_model,
            summary_model=self.summary_model,
            limits=self.limits(),
            settings=self.settings(ctx, runs_code=runs_code),
            observe=observers,
        )

    def sources(self, paths: list[str]) -> list[Source]:
        """What the PATHs of a command name. Raises UsageError."""
        import sys

        from rlm.documents import sources_from_arguments

        return list(sources_from_arguments(paths, sys.stdin.buffer, exclude=self.exclude or ()))


def takes_run_options(
    *,
    each: str = "",
    without_effect: Mapping[str, str] | None = None,
    refused: Mapping[str, str] | None = None,
) -> Callable[[Callable[..., None]], Callable[..., None]]:
    """Give a command all of them, in the place of its parameter `given: RunOptions`.

    `each` is what its limits are for (`each task`). An option in `without_effect` is taken, and told to have
    none, with the reason; one in `refused` raises UsageError: what it asks for can't be had there.
    """
    return lambda command: _Taking(command, each, without_effect or {}, refused or {})


class _Taking:
    """A command as typer is to see it: the options stand in its signature where `given` did."""

    def __init__(
        self, command: Callable[..., None], each: str, idle: Mapping[str, str], never: Mapping[str, str]
    ) -> None:
        self._command = command
        self._idle = idle
        self._never = never
        hints = get_type_hints(command, include_extras=True)
        parameters: list[inspect.Parameter] = []
        for parameter in inspect.signature(command).parameters.values():
            if parameter.name == "given":
                parameters += _declared(each, {**idle, **never})
            else:
                parameters.append(parameter.replace(annotation=hints[parameter.name]))
        self.__name__ = command.__name__
        self.__doc__ = command.__doc__
        self.__annotations__ = {one.name: one.annotation for one in parameters}
        self.__signature__ = inspect.Signature(parameters)

    def __call__(self, ctx: typer.Context, **values: Any) -> None:
        own = {field.name: values.pop(field.name) for field in fields(RunOptions)}
        for name in (*self._idle, *self._never):
            source = ctx.get_parameter_source(name)
            if source is None or source.name != "COMMANDLINE":
                continue
            flag = f"--{name.replace('_', '-')}"
            if name in self._never:
                raise UsageError(f"{flag} can't be had with rlm {ctx.info_name}: {self._never[name]}")
            say(f"{flag} has no effect here: {self._idle[name]}")
        self._command(ctx, **values, given=RunOptions(**own))


def _declared(each: str, not_here: Mapping[str, str]) -> Iterator[inspect.Parameter]:
    """The fields of RunOptions as parameters, each with what this command has to say of it."""
    hints = get_type_hints(RunOptions, include_extras=True)
    for field in fields(RunOptions):
        kind, option = hints[field.name].__origin__, copy(hints[field.name].__metadata__[0])
        if field.name in not_here:
            option.help = f"Not here: {not_here[field.name]}."
        elif each and field.name in _LIMITS:
            option.help = f"{option.help.rstrip('.')}, {each}."
        yield inspect.Parameter(
            field.name,
            inspect.Parameter.KEYWORD_ONLY,
            default=field.default,
            annotation=Annotated[kind, option],
        )
