"""`--config` and the settings files: their values become the defaults of a command's options.

The precedence is: option, `RLM_*` variable, `./rlm.toml` (or the file of --config), the user's file, default.
A file may set each option of `rlm ask` that has an `RLM_*` variable, under the same name.

The file of a folder may come from a stranger (a cloned repository, an unpacked archive). It may set only what
is marked with FolderMay. If it sets more, the command fails. It does not run without those settings: they may
be what keeps texts on this machine.
"""

from __future__ import annotations

import inspect
import os
import reprlib
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, NamedTuple, get_args, get_origin, get_type_hints

import typer

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence

    from rlm.config_file.loading import FileSettings, FolderSettings, Setting
    from rlm.config_file.mcp_servers import McpServer
    from rlm.models.catalog.info import ModelInfo
    from rlm.prompts import CardSettings

__all__ = [
    "ConfigOption",
    "FolderMay",
    "KnownOption",
    "card_in_force",
    "choose_mcp_servers",
    "default_from_file",
    "describe_refused",
    "facts_in_force",
    "folder_refusal",
    "is_default",
    "known_options",
    "mcp_servers_in_force",
    "split_by_right",
]

_META = "rlm.config_file"
_REFUSED = "rlm.config_file.refused"


class FolderMay(Enum):
    """What `rlm.toml` of a folder may do with an option. It stands next to the option, in its annotation.
    Without it a folder may not set the option."""

    SET = "set"
    LOWER = "lower"


def facts_in_force(ctx: typer.Context) -> Mapping[str, ModelInfo]:
    """Return the windows and prices of the settings files, for a command that has a ConfigOption.

    Raises ConfigurationError if a folder sets more than it may, and that has an effect.
    """
    found: FileSettings = ctx.meta[_META]
    _refuse_folder(ctx, found, _describe_models)
    return found.models


def card_in_force(ctx: typer.Context) -> CardSettings:
    """Return the sizes of card prompts. Raises ConfigurationError as `facts_in_force` does."""
    found: FileSettings = ctx.meta[_META]
    _refuse_folder(ctx, found, _describe_card)
    return found.card


def mcp_servers_in_force(ctx: typer.Context, names: Sequence[str]) -> Mapping[str, McpServer]:
    """Return the MCP servers that --mcp names, as `choose_mcp_servers`."""
    return choose_mcp_servers(ctx.meta[_META], names) if names else {}


def choose_mcp_servers(found: FileSettings, names: Sequence[str]) -> Mapping[str, McpServer]:
    """Return the servers of those names. Raises ConfigurationError for a name that no settings file has, and
    if a folder names servers: it may start no program."""
    from rlm.config_file.settings_file import USER_FILE, user_config_folder
    from rlm.errors import ConfigurationError

    if found.folder is not None and found.folder.mcp:
        raise ConfigurationError(folder_refusal(found.folder, _describe_mcp(found.folder)))
    for name in names:
        if name not in found.mcp:
            known = f"; there are {', '.join(sorted(found.mcp))}" if found.mcp else ""
            raise ConfigurationError(
                f"--mcp {name[:60]!r} is in no settings file{known}: write [mcp.NAME] with command or url "
                f"into {user_config_folder(os.environ) / USER_FILE}"
            )
    return {name: found.mcp[name] for name in names}


def _refuse_folder(
    ctx: typer.Context, found: FileSettings, describe_table: Callable[[FolderSettings], list[str]]
) -> None:
    from rlm.errors import ConfigurationError

    if found.folder is not None:
        # What an option or a variable overrides has no effect.
        names = [shown for name, shown in ctx.meta[_REFUSED].items() if is_default(ctx, name)]
        names += describe_table(found.folder)
        if names:
            raise ConfigurationError(folder_refusal(found.folder, names))


def folder_refusal(folder: FolderSettings, names: Sequence[str]) -> str:
    """Return why a folder may not set what these words name, and the remedy."""
    name = folder.file.name
    return (
        f"{name} of this folder sets {', '.join(names)}, which a folder may not: read it, then give "
        f"--config {name} (--config /dev/null: without it)"
    )


def describe_refused(folder: FolderSettings, refused: Mapping[str, str]) -> list[str]:
    """Return words for all that a folder may not set: options (of `split_by_right`), and keys of tables."""
    return [*refused.values(), *_describe_models(folder), *_describe_card(folder), *_describe_mcp(folder)]


def _describe_models(folder: FolderSettings) -> list[str]:
    prices = [key for key in folder.models if key.endswith("price")]
    others = [f"{key} of models" for key in folder.models if key not in prices]
    return [*(["prices of models"] if prices else []), *others]


def _describe_card(folder: FolderSettings) -> list[str]:
    return [f"prompt.{key}" for key in folder.card]


def _describe_mcp(folder: FolderSettings) -> list[str]:
    return [f"mcp.{name} ({server.command or server.url})" for name, server in folder.mcp.items()]


def is_default(ctx: typer.Context, name: str) -> bool:
    """Return whether neither the command line nor a variable sets an option; a settings file may."""
    source = ctx.get_parameter_source(name)
    return source is not None and source.name in {"DEFAULT", "DEFAULT_MAP"}


class KnownOption(NamedTuple):
    """An option of `rlm ask` that a settings file may set."""

    name: str
    type: Any
    default: Any
    help: str
    folder_may: FolderMay | None

    def allows_folder(self, value: Any, present: Any) -> bool:
        """Return whether a folder may set `value` in place of the `present` one."""
        if value == present or self.folder_may is FolderMay.SET:
            return True
        return self.folder_may is FolderMay.LOWER and value < present


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
                right = next((extra for extra in extras if isinstance(extra, FolderMay)), None)
                found.append(KnownOption(name, kind, parameters[name].default, option.help or "", right))
    return tuple(found)


def default_from_file(ctx: typer.Context, param: typer.CallbackParam, value: Any) -> Any:
    """Return what a settings file sets for an option of a command without --config, else `value`. It is the
    option's callback. Raises ConfigurationError if the file of a folder sets it and may not."""
    from rlm.config_file.loading import load_settings
    from rlm.config_file.settings_file import settings_files
    from rlm.errors import ConfigurationError

    name = str(param.name)
    if ctx.resilient_parsing or _META in ctx.meta or not is_default(ctx, name):
        return value
    explicit = os.environ.get("RLM_CONFIG")
    settings = load_settings(settings_files(Path(explicit) if explicit else None, os.environ, Path.cwd()))
    asked = {} if settings.folder is None else settings.folder.options
    if name not in settings.options and name not in asked:
        return value
    values, refused = split_by_right(ctx, settings)
    if name in refused:
        assert settings.folder is not None
        raise ConfigurationError(folder_refusal(settings.folder, [refused[name]]))
    return values.get(name, value)


def _apply(ctx: typer.Context, file: str | None) -> str | None:
    from rlm.config_file.loading import load_settings
    from rlm.config_file.settings_file import settings_files

    if ctx.resilient_parsing:
        return file
    settings = load_settings(settings_files(Path(file) if file else None, os.environ, Path.cwd()))
    values, refused = split_by_right(ctx, settings)
    ctx.meta[_META], ctx.meta[_REFUSED] = settings, refused
    ctx.default_map = {**values, **(ctx.default_map or {})}
    return file


def split_by_right(ctx: typer.Context, settings: FileSettings) -> tuple[dict[str, Any], dict[str, str]]:
    """Return the values of options that the files may set, and those that the folder may not set: their names
    in words, by name."""
    asked = {} if settings.folder is None else settings.folder.options
    options = {option.name: option for option in known_options(ctx)} if settings.options or asked else {}
    values = {key: _validated(key, setting, options) for key, setting in settings.options.items()}
    refused = {}
    for key, setting in asked.items():
        value, option = _validated(key, setting, options), options[key]
        present = values.get(key, option.default)
        if option.allows_folder(value, present):
            values[key] = value
        else:
            refused[key] = f"{key} (above {present})" if option.folder_may is FolderMay.LOWER else key
    return values, refused


def _validated(key: str, setting: Setting, options: dict[str, KnownOption]) -> Any:
    """Return the value, converted to the option's type. Raises ConfigurationError with file and key."""
    from pydantic import TypeAdapter, ValidationError

    from rlm.errors import ConfigurationError

    option = options.get(key)
    if option is None:
        names = ", ".join((*sorted(options), "[models]", "[prompt]", "[mcp]"))
        raise ConfigurationError(f"{setting.file}: unknown setting {_shown(key)}; use one of {names}")
    value = setting.value
    if type(value) is int and str(value) in get_args(option.type):
        value = str(value)  # `sandbox = 2` means `sandbox = "2"`
    if key == "sub_model":
        value = _named_models(value)
    try:
        value = TypeAdapter(option.type).validate_python(value, strict=True)
        _check_value(key, value)
    except ValidationError as error:
        reason = error.errors()[0]["msg"]
        raise ConfigurationError(f"{setting.file}: {key} is {reprlib.repr(value)}: {reason}") from None
    except ConfigurationError as error:
        fault = f"{key}: {error}" if error.option is None else f"{key} {error.problem}"
        raise ConfigurationError(f"{setting.file}: {fault}") from None
    return value


def _named_models(value: Any) -> Any:
    """Return what --sub-model takes: one model, a list, or a table of models by name."""
    from rlm.children.sub_models import write_sub_models

    if isinstance(value, dict):
        return write_sub_models(value)
    return [value] if isinstance(value, str) else value


def _shown(key: str) -> str:
    """Return the key as an error may show it: a key in quotes can hold anything."""
    return key if key.isidentifier() and len(key) <= 40 else reprlib.repr(key)


def _check_value(key: str, value: Any) -> None:
    """Raise now what the runtime would raise later."""
    from rlm.children.sub_models import parse_sub_models
    from rlm.limits import Limits
    from rlm.models.catalog.names import parse_name

    if any(limit.name == key for limit in fields(Limits)):
        Limits(**{key: value})
    elif key == "sub_model":
        for model in parse_sub_models(value).values():
            parse_name(model)
    elif key == "model" or key.endswith("_model"):
        parse_name(value)


ConfigOption = Annotated[
    str | None,
    typer.Option(
        "--config",
        envvar="RLM_CONFIG",
        rich_help_panel="Settings and journal",
        help="A settings file to use instead of ./rlm.toml. It may set everything.",
        is_eager=True,
        callback=_apply,
        show_default=False,
    ),
]
