"""Reads and merges settings files: defaults for the command line, facts about models, sizes of card prompts.

This module checks the tables `[models."NAME"]`, `[prompt]` and `[mcp.NAME]`. The other top-level keys are
options of the command line, which `rlm.cli.config` checks.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import field
from pathlib import Path
from typing import Any

from rlm.config_file.mcp_servers import McpServer, read_mcp_servers
from rlm.config_file.settings_file import SettingsFile, parse_toml
from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass
from rlm.models.catalog.info import ModelInfo
from rlm.prompts import CardSettings, PromptError

__all__ = ["FileSettings", "FolderSettings", "Setting", "load_settings"]

_TABLES = ("models", "prompt", "mcp")


@dataclass(frozen=True, slots=True)
class Setting:
    """A top-level value, and its file."""

    value: Any
    file: Path


@dataclass(frozen=True, slots=True)
class FolderSettings:
    """What `rlm.toml` of a folder asks for.

    options: its top-level values. Which of them a folder may set is declared with each option.
    models, card: the keys of its tables that were ignored, because a folder may not set them.
    mcp: its MCP servers, which were ignored: a folder may not start programs.
    """

    file: Path
    options: Mapping[str, Setting]
    models: tuple[str, ...]
    card: tuple[str, ...]
    mcp: Mapping[str, McpServer]


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The merged settings of all files. If several files have a key, the last of them wins. `files` are the
    files in the order of reading: the user's file first. `folder` is the file that does not speak for the
    user; its options are not among `options`."""

    options: Mapping[str, Setting] = field(default_factory=dict)
    models: Mapping[str, ModelInfo] = field(default_factory=dict)
    card: CardSettings = field(default_factory=CardSettings)
    mcp: Mapping[str, McpServer] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    folder: FolderSettings | None = None


def load_settings(files: Sequence[SettingsFile]) -> FileSettings:
    """Merge the settings of these files. Later files override earlier ones. Raises ConfigurationError, which
    names the file and, for an invalid value, the key."""
    options: dict[str, Setting] = {}
    models: dict[str, Any] = {}
    prompt: dict[str, Any] = {}
    mcp: dict[str, McpServer] = {}
    folder = None
    for file in files:
        data = parse_toml(file.path, file.data)
        own = _read_options(data, file.path)
        facts, card = data.get("models", {}), data.get("prompt", {})
        # Check each file alone, so that an error names the right one.
        _read_models(facts, file.path)
        _read_card(card, file.path)
        servers = _read_mcp(data.get("mcp", {}), file.path)
        if file.is_users:
            options |= own
            mcp |= servers
        else:
            facts, no_facts = ModelInfo.split_for_folder(facts)
            card, no_card = CardSettings.split_for_folder(card)
            folder = FolderSettings(file.path, own, no_facts, no_card, servers)
        models, prompt = _merge(models, facts), _merge(prompt, card)
    last = files[-1].path if files else Path()
    return FileSettings(
        options,
        _read_models(models, last),
        _read_card(prompt, last),
        mcp,
        tuple(file.path for file in files),
        folder,
    )


def _read_options(data: Mapping[str, Any], file: Path) -> dict[str, Setting]:
    """Return the options by name. A name may be written with dashes."""
    options: dict[str, Setting] = {}
    for written, value in data.items():
        name = written.replace("-", "_")
        if name in _TABLES:
            continue
        if name in options:
            raise ConfigurationError(f"{file}: {name} is set twice, with - and with _: leave one out")
        options[name] = Setting(value, file)
    return options


def _read_models(table: object, file: Path) -> dict[str, ModelInfo]:
    if not isinstance(table, Mapping):
        raise ConfigurationError(f'{file}: models is {table!r}; write [models."NAME"]')
    try:
        return {name: ModelInfo.from_table(f'models."{name}"', facts) for name, facts in table.items()}
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _read_card(table: object, file: Path) -> CardSettings:
    try:
        return CardSettings.from_table(table)
    except PromptError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _read_mcp(table: object, file: Path) -> dict[str, McpServer]:
    try:
        return read_mcp_servers(table)
    except ConfigurationError as error:
        raise ConfigurationError(f"{file}: {error}") from None


def _merge(base: Mapping[str, Any], override: Mapping[str, Any]) -> dict[str, Any]:
    """Merge two tables. Values of `override` win; tables within tables are merged too."""
    merged = dict(base)
    for key, value in override.items():
        are_tables = isinstance(value, Mapping) and isinstance(merged.get(key), Mapping)
        merged[key] = _merge(merged[key], value) if are_tables else value
    return merged
