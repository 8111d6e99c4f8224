"""Read `rlm.toml`: defaults for the command line, facts about models, and the sizes of a card's prompt.

This module finds the files and checks the tables `[models."NAME"]` and `[prompt]`. The other top-level keys
are options of the command line, which `rlm.cli.config` checks.
"""

from __future__ import annotations

import tomllib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm.errors import ConfigurationError
from rlm.models.catalog.overrides import ModelFacts
from rlm.prompts import CardSettings, PromptError

__all__ = ["FILE_NAME", "FileSettings", "Setting", "load_settings", "settings_files"]

FILE_NAME = "rlm.toml"
_TABLES = ("models", "prompt")


@dataclass(frozen=True, slots=True)
class Setting:
    """A top-level value and its file."""

    value: Any
    file: Path


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The merged settings of all files. If several files have a key, the last of them wins. `files` are the
    files in the order of reading: the user's file first."""

    options: Mapping[str, Setting] = field(default_factory=dict)
    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    card: CardSettings = field(default_factory=CardSettings)
    files: tuple[Path, ...] = ()


def settings_files(explicit: Path | None, env: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    """Return the existing settings files, in the order of reading.

    The first is the user's: `rlm/config.toml` in `$XDG_CONFIG_HOME`, or in `~/.config` without that variable.
    The second is `explicit`, or `rlm.toml` in `folder` without it. Raises ConfigurationError if `explicit`
    does not exist.
    """
    config = Path(env.get("XDG_CONFIG_HOME", ""))
    if not config.is_absolute():
        config = Path(env.get("HOME") or Path.home()) / ".config"
    if explicit is not None and not explicit.exists():
        raise ConfigurationError(f"{explicit} does not exist: check --config, or write one with `rlm init`")
    project = explicit or folder / FILE_NAME
    return tuple(file for file in (config / "rlm" / "config.toml", project) if file.exists())


def load_settings(files: Sequence[Path]) -> FileSettings:
    """Read and merge the settings of these files. Later files override earlier ones. Raises
    ConfigurationError, which names the file and, for an invalid value, the key."""
    options: dict[str, Setting] = {}
    models: dict[str, ModelFacts] = {}
    prompt: dict[str, Any] = {}
    for file in files:
        data = _parse(file)
        options |= {key: Setting(value, file) for key, value in data.items() if key not in _TABLES}
        models |= _read_models(data.get("models", {}), file)
        if "prompt" in data:
            _read_card(data["prompt"], file)  # check each file alone, so that an error names the right one
            prompt = _merge(prompt, data["prompt"])
    card = _read_card(prompt, files[-1]) if prompt else CardSettings()
    return FileSettings(options, models, card, tuple(files))


def _parse(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read: {error.strerror}") from None


def _read_models(table: object, file: Path) -> dict[str, ModelFacts]:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f'{file}: models is {table!r}; write [models."NAME"]')
    try:
        return {name: ModelFacts.from_table(f'models."{name}"', facts) for name, facts in table.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _read_card(table: object, file: Path) -> CardSettings:
    try:
        return CardSettings.from_table(table)
    except PromptError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables. Values of `override` win; tables within tables are merged too."""
    merged = dict(base)
    for key, value in override.items():
        are_tables = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if are_tables else value
    return merged
