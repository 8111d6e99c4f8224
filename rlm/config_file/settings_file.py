"""Settings files: where they are, and whether they may be read."""

from __future__ import annotations

import json
import os
import stat
import tomllib
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from rlm.config_file.trusted_folders import TrustedFolders
from rlm.config_file.user_folder import user_config_folder
from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass

__all__ = [
    "FILE_NAME",
    "PROJECT_NAME",
    "USER_FILE",
    "SettingsFile",
    "parse_toml",
    "read_folder_file",
    "settings_files",
]

FILE_NAME = "rlm.toml"
PROJECT_NAME = "pyproject.toml"
USER_FILE = "config.toml"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file and its content, read once: what is checked is what is used.

    data: the bytes of the file; of `pyproject.toml` (`is_table`), its table [tool.rlm] as JSON with sorted
    keys, so that a change elsewhere in that file changes nothing here.
    is_trusted: it speaks for the user. False for the file of a folder that is not trusted.
    has_changed: its folder was trusted with another content.
    """

    path: Path
    data: bytes
    is_trusted: bool = True
    has_changed: bool = False
    is_table: bool = False


def settings_files(explicit: Path | None, env: Mapping[str, str], folder: Path) -> tuple[SettingsFile, ...]:
    """Return the existing settings files, in the order of reading.

    The first is the user's: `rlm/config.toml` in `$XDG_CONFIG_HOME`, or in `~/.config` without that variable.
    The last is `explicit`, or else the nearest file of `folder` and the folders above it (`_searched`). If
    that one is not trusted, the nearest trusted one above it is read before it: a folder within the user's
    own must not switch his settings off. Raises ConfigurationError if `explicit` does not exist, or if a file
    cannot be read.
    """
    users = user_config_folder(env)
    files = []
    own = users / USER_FILE
    if own.exists():
        files.append(SettingsFile(own, _read(own, os.O_RDONLY)))
    if explicit is not None:
        if not explicit.exists():
            raise ConfigurationError(
                f"{explicit} does not exist: check --config, or write one with `rlm init`"
            )
        files.append(_explicit_file(explicit))
        return tuple(files)
    return (*files, *_files_of_folders(TrustedFolders(users), _searched(folder, env)))


def _files_of_folders(trusted: TrustedFolders, folders: Iterator[Path]) -> list[SettingsFile]:
    nearest: SettingsFile | None = None
    for folder in folders:
        if nearest is not None:
            # Only a trusted file matters here: whatever else lies above must not stop the command.
            file = _read_quietly(folder)
            if file is not None and trusted.trusts(file.path, file.data):
                return [file, nearest]
            continue
        file = read_folder_file(folder)
        if file is None:
            continue
        is_trusted = trusted.trusts(file.path, file.data)
        if is_trusted:
            return [file]
        has_changed = trusted.knows(file.path)
        nearest = SettingsFile(file.path, file.data, False, has_changed, file.is_table)
    return [] if nearest is None else [nearest]


def _searched(folder: Path, env: Mapping[str, str]) -> Iterator[Path]:
    """Yield the folder, and those above it up to the root of its repository (it has a `.git`) or the user's
    home. Outside of both, and above a folder of somebody else, only the folder itself counts: anybody may
    put a file into `/tmp`."""
    yield folder
    home = Path(env.get("HOME", ""))
    above = []
    for one in (folder, *folder.parents):
        if one != folder:
            if not _belongs_to_user(one):
                return
            above.append(one)
        if os.path.lexists(one / ".git") or (home.is_absolute() and one == home):
            yield from above
            return


def _belongs_to_user(folder: Path) -> bool:
    try:
        return folder.stat().st_uid == os.getuid()
    except OSError:
        return False


def _read_quietly(folder: Path) -> SettingsFile | None:
    try:
        return read_folder_file(folder)
    except ConfigurationError:
        return None


def read_folder_file(folder: Path) -> SettingsFile | None:
    """Return `rlm.toml` in `folder`, else the table [tool.rlm] of its `pyproject.toml`; None if there is
    neither. Whether it is trusted is not looked up.

    The files may be hostile: a pipe would block and a link could show another file. Raises ConfigurationError
    if `rlm.toml`, or a `pyproject.toml` that names rlm, is not a regular file in `folder`, or too large.
    """
    data = _read_in_folder(folder / FILE_NAME)
    if data is not None:
        return SettingsFile(folder / FILE_NAME, data)
    project = folder / PROJECT_NAME
    if not project.is_file():
        return None
    data = _read_in_folder(project)
    table = _table_of_project(project, data) if data is not None else None
    return None if table is None else SettingsFile(project, table, is_table=True)


def _explicit_file(path: Path) -> SettingsFile:
    data = _read(path, os.O_RDONLY)
    if path.name != PROJECT_NAME:
        return SettingsFile(path, data)
    return SettingsFile(path, _table_of_project(path, data) or b"{}", is_table=True)


def parse_toml(path: Path, data: bytes) -> dict[str, Any]:
    """Return the file's values. Raises ConfigurationError with the file's name."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path} is not TOML: it is nested too deeply") from None


def _table_of_project(path: Path, data: bytes) -> bytes | None:
    """Return the table [tool.rlm] as JSON, or None. A project without it may hold anything."""
    if b"rlm" not in data:
        return None
    tools = parse_toml(path, data).get("tool", {})
    table = tools.get("rlm") if isinstance(tools, dict) else None
    if table is None:
        return None
    if not isinstance(table, dict):
        raise ConfigurationError(f"{path}: tool.rlm is no table: write [tool.rlm]")
    return json.dumps(table, sort_keys=True, default=str).encode()


def _read_in_folder(path: Path) -> bytes | None:
    """Return the bytes of a file that lies in its folder, or None if there is none."""
    try:
        real = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    if not Path(real).is_relative_to(os.path.realpath(path.parent)):
        raise ConfigurationError(f"{path} is a link out of its folder: remove it, or give --config {real}")
    return _read(path, os.O_RDONLY | os.O_NONBLOCK | os.O_NOCTTY, only_regular=True)


def _read(path: Path, flags: int, *, only_regular: bool = False) -> bytes:
    try:
        descriptor = os.open(path, flags | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as stream:
            if only_regular and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigurationError(f"{path} is not a regular file: remove it, or give --config FILE")
            data = stream.read(_MAX_BYTES + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    if len(data) > _MAX_BYTES:
        raise ConfigurationError(f"{path} is over {_MAX_BYTES >> 20} MB: that is no settings file")
    return data
