"""Reads and merges settings files, and says what the file of a folder may not set.

The keys are the rows of `rlm.settings_table`, and the tables `[models."NAME"]`, `[prompt]` and `[mcp.NAME]`.
The file of a folder may come from a stranger (a cloned repository, an unpacked archive). If it sets more than
it may, a command that takes the setting fails. It does not run without it: it may be what keeps texts on this
machine.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rlm.config_file.mcp_servers import McpServer, read_mcp_servers
from rlm.config_file.settings_file import USER_FILE, SettingsFile, parse_toml, user_config_folder
from rlm.errors import ConfigurationError
from rlm.models.catalog.info import ModelInfo
from rlm.models.catalog.names import parse_name
from rlm.prompts import CardSettings, PromptError
from rlm.settings_table import SETTINGS, Setting

__all__ = ["FileSettings", "load_settings"]

_TABLES = ("models", "prompt", "mcp")


@dataclass(frozen=True, slots=True)
class FileSettings:
    """The merged settings of all files. If several files have a key, the last of them wins.

    values: of the rows of the settings table.
    files: in the order of reading: the user's file first.
    folder: the file that does not speak for the user.
    refused: what it sets and may not, in words, by the name of the setting or table.
    """

    values: Mapping[str, Any] = field(default_factory=dict)
    models: Mapping[str, ModelInfo] = field(default_factory=dict)
    card: CardSettings = field(default_factory=CardSettings)
    mcp: Mapping[str, McpServer] = field(default_factory=dict)
    files: tuple[Path, ...] = ()
    folder: Path | None = None
    refused: Mapping[str, tuple[str, ...]] = field(default_factory=dict)

    def check(self, names: Iterable[str]) -> None:
        """Raise ConfigurationError if the folder sets one of these settings or tables and may not."""
        words = [word for name in names for word in self.refused.get(name, ())]
        if words and self.folder is not None:
            raise ConfigurationError(self.describe_refused(words))

    def describe_refused(self, words: Sequence[str]) -> str:
        """Return that a folder may not set what these words name, and the remedy."""
        name = self.folder.name if self.folder else ""
        return (
            f"{name} of this folder sets {', '.join(words)}, which a folder may not: read it, then give "
            f"--config {name} (--config /dev/null: without it)"
        )

    def servers(self, names: Sequence[str], env: Mapping[str, str]) -> dict[str, McpServer]:
        """Return the MCP servers of those names. Raises ConfigurationError for a name that no file of the
        user has, and if a folder names servers: it may start no program."""
        if names:
            self.check(["mcp"])
        for name in names:
            if name not in self.mcp:
                known = f"; there are {', '.join(sorted(self.mcp))}" if self.mcp else ""
                raise ConfigurationError(
                    f"--mcp {name[:60]!r} is in no settings file{known}: write [mcp.NAME] with command or "
                    f"url into {user_config_folder(env) / USER_FILE}"
                )
        return {name: self.mcp[name] for name in names}


def load_settings(files: Sequence[SettingsFile]) -> FileSettings:
    """Merge the settings of these files. Later files override earlier ones. Raises ConfigurationError, which
    names the file and, for an invalid value, the key."""
    values: dict[str, Any] = {}
    models: dict[str, Any] = {}
    prompt: dict[str, Any] = {}
    mcp: dict[str, McpServer] = {}
    refused: dict[str, tuple[str, ...]] = {}
    folder = None
    for file in files:
        data = parse_toml(file.path, file.data)
        own = _read_values(data, file.path)
        facts, card = data.get("models", {}), data.get("prompt", {})
        # Check each file alone, so that an error names the right one.
        _read_models(facts, file.path)
        _read_card(card, file.path)
        servers = _read_mcp(data.get("mcp", {}), file.path)
        if not file.is_users:
            folder = file.path
            refused = _refused_values(own, values)
            own = {name: value for name, value in own.items() if name not in refused}
            facts, no_facts = ModelInfo.split_for_folder(facts)
            card, no_card = CardSettings.split_for_folder(card)
            refused["models"] = _model_words(no_facts)
            refused["prompt"] = tuple(f"prompt.{key}" for key in no_card)
            refused["mcp"] = tuple(f"mcp.{name} ({one.command or one.url})" for name, one in servers.items())
            servers = {}
        values |= own
        mcp |= servers
        models, prompt = _merge(models, facts), _merge(prompt, card)
    last = files[-1].path if files else Path()
    return FileSettings(
        values,
        _read_models(models, last),
        _read_card(prompt, last),
        mcp,
        tuple(file.path for file in files),
        folder,
        {name: words for name, words in refused.items() if words},
    )


def _read_values(data: Mapping[str, Any], file: Path) -> dict[str, Any]:
    """Return the checked settings by name. A name may be written with dashes."""
    values: dict[str, Any] = {}
    for written, value in data.items():
        name = written.replace("-", "_")
        if name in _TABLES:
            continue
        if name in values:
            raise ConfigurationError(f"{file}: {name} is set twice, with - and with _: leave one out")
        if name not in SETTINGS:
            # A key in quotes can hold anything.
            shown = name if name.isidentifier() and len(name) <= 40 else repr(name[:40])
            known = ", ".join((*sorted(SETTINGS), *(f"[{table}]" for table in _TABLES)))
            raise ConfigurationError(f"{file}: unknown setting {shown}; use one of {known}")
        values[name] = _check(name, _as_typed(SETTINGS[name], value), file)
    return values


def _as_typed(row: Setting, value: Any) -> Any:
    """Return a value in the form of its row, if it is written in a shorter one."""
    if type(value) is int and isinstance(row.kind, tuple):
        return str(value)  # `sandbox = 2` means `sandbox = "2"`
    if row.is_list and isinstance(value, dict):
        return [f"{key}={text}" for key, text in value.items()]  # sub_model, by the names of models
    return [value] if row.is_list and isinstance(value, str) else value


def _check(name: str, value: Any, file: Path) -> Any:
    """Return the value. Raises ConfigurationError with file and key."""
    fault = SETTINGS[name].fault(value)
    if fault is not None:
        raise ConfigurationError(f"{file}: {name} {fault}")
    if name in ("model", "summary_model"):
        try:
            parse_name(value)
        except ConfigurationError as error:
            raise ConfigurationError(f"{file}: {name}: {error}") from None
    return value


def _refused_values(asked: Mapping[str, Any], users: Mapping[str, Any]) -> dict[str, tuple[str, ...]]:
    """Return which of these settings a folder may not set, above those of the user."""
    refused: dict[str, tuple[str, ...]] = {}
    for name, value in asked.items():
        row = SETTINGS[name]
        present = users.get(name, row.default)
        if row.folder == "lower" and value > present:
            refused[name] = (f"{name} (above {present})",)
        elif row.folder == "never" and value != present:
            refused[name] = (name,)
    return refused


def _model_words(keys: Sequence[str]) -> tuple[str, ...]:
    """Return words for the facts of models that a folder may not set."""
    prices = [key for key in keys if key.endswith("price")]
    others = [f"{key} of models" for key in keys if key not in prices]
    return (*(["prices of models"] if prices else []), *others)


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
