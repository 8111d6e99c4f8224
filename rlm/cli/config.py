"""`--config` and the files it stands for: their values become the defaults of a command's options.

So the precedence is the command line's own: option, then `RLM_*` variable, then `rlm.toml` (or the file
given), then the user's file, then the default. The keys a file may hold are the options of `rlm ask` that an
`RLM_*` variable sets too, under the same names.
"""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple

import typer

from rlm.cli.words import limit_of

if TYPE_CHECKING:
    from rlm.settings import FileSettings, Setting

__all__ = ["ConfigOption", "known_options", "settings_in_force"]

_META = "rlm.settings"


def settings_in_force(ctx: typer.Context) -> FileSettings:
    """What the settings files say, for a command that has a ConfigOption."""
    found: FileSettings = ctx.meta[_META]
    return found


def known_options(ctx: typer.Context) -> Iterator[Any]:
    """The parameters of `rlm ask` that a settings file may set."""
    commands: dict[str, Any] = getattr(ctx.find_root().command, "commands", {})
    return (option for option in commands["ask"].params if option.envvar and option.name != "config")


def _apply(ctx: typer.Context, file: str | None) -> str | None:
    from rlm.settings import load_settings, settings_files

    if ctx.resilient_parsing:
        return file
    files = settings_files(Path(file) if file else None, os.environ, Path.cwd())
    settings = load_settings(files)
    options = {option.name: option for option in known_options(ctx)}
    for key, setting in settings.options.items():
        _check(ctx, key, setting, options)
    ctx.meta[_META] = settings
    values = {key: setting.value for key, setting in settings.options.items()}
    ctx.default_map = {**values, **(ctx.default_map or {})}
    return file


def _check(ctx: typer.Context, key: str, setting: Setting, options: dict[str, Any]) -> None:
    """Raises ConfigurationError naming the file and the key."""
    from rlm.errors import ConfigurationError

    option = options.get(key)
    if option is None:
        known = ", ".join((*sorted(options), "[models]", "[prompt]"))
        raise ConfigurationError(f"{setting.file}: {key} is no setting; there are {known}")
    wanted = _wanted(option)
    # `sandbox = 2` and `sandbox = "2"` are both what people write.
    if type(setting.value) not in wanted.types and not (key == "sandbox" and type(setting.value) is int):
        raise ConfigurationError(f"{setting.file}: {key} is {setting.value!r}; give {wanted.words}")
    try:
        value = option.type_cast_value(ctx, setting.value)
        _judge(key, value)
    except typer.BadParameter as error:
        raise ConfigurationError(f"{setting.file}: {key}: {error.message}") from None
    except ConfigurationError as error:
        said = str(error).replace(f"limits.{limit_of(key)}", key)
        raise ConfigurationError(f"{setting.file}: {key}: {said}") from None


class _Wanted(NamedTuple):
    types: tuple[type, ...]
    words: str


def _wanted(option: Any) -> _Wanted:
    match option.type.name:
        case "integer" | "integer range":
            return _Wanted((int,), "a whole number")
        case "float" | "float range":
            return _Wanted((int, float), "a number")
        case "boolean":
            return _Wanted((bool,), "true or false")
    return _Wanted((str,), "a text in quotes")


def _judge(key: str, value: Any) -> None:
    """What the runtime would say of it, said before anything else is done."""
    from rlm.budget import Limits
    from rlm.models.names import parse_name

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
        help="A settings file in the place of ./rlm.toml.",
        is_eager=True,
        callback=_apply,
        show_default=False,
    ),
]
