"""`rlm.toml`: defaults for the command line, facts about models, and the sizes of a card's prompt.

Which top-level keys there are is the command line's to say (`rlm.cli.config`): they are its options. Here are
the files, where they are looked for, and the tables `[models."NAME"]` and `[prompt]`.
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
    """A top-level value, and the file it stands in."""

    value: Any
    file: Path


@dataclass(frozen=True, slots=True)
class FileSettings:
    """What the settings files say: of a key that stands in several, the nearest file's. `files` are those
    that were read, the farthest first."""

    options: Mapping[str, Setting] = field(default_factory=dict)
    models: Mapping[str, ModelFacts] = field(default_factory=dict)
    card: CardSettings = field(default_factory=CardSettings)
    files: tuple[Path, ...] = ()


def settings_files(explicit: Path | None, env: Mapping[str, str], folder: Path) -> tuple[Path, ...]:
    """The files in force, the farthest first: the user's (`$XDG_CONFIG_HOME/rlm/config.toml`, else under
    `~/.config`), then `explicit`, or without it `rlm.toml` in `folder`. Raises ConfigurationError when
    `explicit` is not there."""
    config = Path(env.get("XDG_CONFIG_HOME", ""))
    if not config.is_absolute():
        config = Path(env.get("HOME") or Path.home()) / ".config"
    if explicit is not None and not explicit.exists():
        raise ConfigurationError(f"{explicit} is not there: check --config, or write one with `rlm init`")
    near = explicit or folder / FILE_NAME
    return tuple(file for file in (config / "rlm" / "config.toml", near) if file.exists())


def load_settings(files: Sequence[Path]) -> FileSettings:
    """The settings in these files, the farthest first. Raises ConfigurationError naming the file and, where
    it is a value that will not do, the key."""
    options: dict[str, Setting] = {}
    models: dict[str, ModelFacts] = {}
    prompt: dict[str, Any] = {}
    for file in files:
        data = _parsed(file)
        options |= {key: Setting(value, file) for key, value in data.items() if key not in _TABLES}
        models |= _models(data.get("models", {}), file)
        if "prompt" in data:
            _card(data["prompt"], file)  # alone, so that what is wrong is told of the file it stands in
            prompt = _merged(prompt, data["prompt"])
    card = _card(prompt, files[-1]) if prompt else CardSettings()
    return FileSettings(options, models, card, tuple(files))


def _parsed(file: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(file.read_text(encoding="utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{file} is not TOML: {error}") from None
    except OSError as error:
        raise ConfigurationError(f"{file} can't be read: {error.strerror}") from None


def _models(table: object, file: Path) -> dict[str, ModelFacts]:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f'{file}: models is {table!r}; write [models."NAME"]')
    try:
        return {name: ModelFacts.from_table(f'models."{name}"', facts) for name, facts in table.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _card(table: object, file: Path) -> CardSettings:
    try:
        return CardSettings.from_table(table)
    except PromptError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _merged(far: Mapping[str, Any], near: Mapping[str, Any]) -> dict[str, Any]:
    merged = dict(far)
    for key, value in near.items():
        both = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merged(merged[key], value) if both else value
    return merged
