"""`--config` and the settings files: their values become the defaults of a command's options.

The precedence is: option, `RLM_*` variable, `rlm.toml` (or the file of --config), the user's file, default.
A file may set each option of `rlm ask` that has an `RLM_*` variable, under the same name.
"""

from __future__ import annotations

import inspect
import os
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

from rlm.cli.console.option_names import limit_of

if TYPE_CHECKING:
    from rlm.config_file import FileSettings, Setting

__all__ = ["ConfigOption", "KnownOption", "known_options", "settings_in_force"]

_META = "rlm.config_file"


def settings_in_force(ctx: typer.Context) -> FileSettings:
    """Return the values of the settings files, for a command that has a ConfigOption."""
    found: FileSettings = ctx.meta[_META]
    return found


class KnownOption(NamedTuple):
    """An option of `rlm ask` that a settings file may set."""

    name: str
    type: Any
    default: Any
    help: str


def known_options(ctx: typer.Context) -> tuple[KnownOption, ...]:
    """Return the options of `rlm ask` that have an RLM_* variable, without --config."""
    commands: dict[str, Any] = getattr(ctx.find_root().command, "commands", {})
    ask = inspect.unwrap(commands["ask"].callback)
    parameters = inspect.signature(ask).parameters
    found = []
    for name, hint in get_type_hints(ask, include_extras=True).items():
        kind, *extras = get_args(hint) if get_origin(hint) is Annotated else (hint,)
        for option in extras:
            if getattr(option, "envvar", None) and name != "config":
                found.append(KnownOption(name, kind, parameters[name].default, option.help or ""))
    return tuple(found)


def _apply(ctx: typer.Context, file: str | None) -> str | None:
    from rlm.config_file import load_settings, settings_files

    if ctx.resilient_parsing:
        return file
    files = settings_files(Path(file) if file else None, os.environ, Path.cwd())
    settings = load_settings(files)
    options = {option.name: option for option in known_options(ctx)} if settings.options else {}
    values = {key: _validated(key, setting, options) for key, setting in settings.options.items()}
    ctx.meta[_META] = settings
    ctx.default_map = {**values, **(ctx.default_map or {})}
    return file


def _validated(key: str, setting: Setting, options: dict[str, KnownOption]) -> Any:
    """Return the value, converted to the option's type. Raises ConfigurationError with file and key."""
    from pydantic import TypeAdapter, ValidationError

    from rlm.errors import ConfigurationError

    option = options.get(key)
    if option is None:
        names = ", ".join((*sorted(options), "[models]", "[prompt]"))
        raise ConfigurationError(f"{setting.file}: unknown setting {key}; use one of {names}")
    value = setting.value
    if type(value) is int and str(value) in get_args(option.type):
        value = str(value)  # `sandbox = 2` means `sandbox = "2"`
    try:
        value = TypeAdapter(option.type).validate_python(value, strict=True)
        _check_value(key, value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigurationError(f"{setting.file}: {key} is {value!r}: {reason}") from None
    except ConfigurationError as error:
        fault = f"{key}: {error}" if error.option is None else f"{key} {error.problem}"
        raise ConfigurationError(f"{setting.file}: {fault}") from None
    return value


def _check_value(key: str, value: Any) -> None:
    """Raise now what the runtime would raise later."""
    from rlm.models.catalog.names import parse_name
    from rlm.settings import Limits

    limit = limit_of(key)
    if limit is not None:
        Limits(**{limit: value})
    elif key == "model" or key.endswith("_model"):
        parse_name(value)


ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        envvar="RLM_CONFIG",
        help="A settings file to use instead of ./rlm.toml.",
        is_eager=True,
        callback=_apply,
        show_default=False,
    ),
]
