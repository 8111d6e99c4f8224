"""Finds the settings files and reads them."""

from __future__ import annotations

import os
import stat
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

from rlm.config_file.trusted_folders import TrustedFolders
from rlm.config_file.user_folder import user_config_folder
from rlm.errors import ConfigurationError

__all__ = ["FILE_NAME", "SettingsFile", "read_folder_file", "settings_files"]

FILE_NAME = "rlm.toml"
_MAX_BYTES = 1 << 20


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file and its content, read once: what is checked is what is used.

    is_trusted: it speaks for the user. False for `rlm.toml` of a folder that is not trusted.
    has_changed: its folder was trusted with another content.
    """

    path: Path
    data: bytes
    is_trusted: bool = True
    has_changed: bool = False


def settings_files(explicit: Path | None, env: Mapping[str, str], folder: Path) -> tuple[SettingsFile, ...]:
    """Return the existing settings files, in the order of reading.

    The first is the user's: `rlm/config.toml` in `$XDG_CONFIG_HOME`, or in `~/.config` without that variable.
    The second is `explicit`, or `rlm.toml` in `folder` without it. Raises ConfigurationError if `explicit`
    does not exist, or if a file cannot be read.
    """
    users = user_config_folder(env)
    files = []
    own = users / "config.toml"
    if own.exists():
        files.append(SettingsFile(own, _read(own, os.O_RDONLY)))
    if explicit is not None:
        if not explicit.exists():
            raise ConfigurationError(
                f"{explicit} does not exist: check --config, or write one with `rlm init`"
            )
        files.append(SettingsFile(explicit, _read(explicit, os.O_RDONLY)))
        return tuple(files)
    data = read_folder_file(folder)
    if data is not None:
        trusted, file = TrustedFolders(users), folder / FILE_NAME
        is_trusted = trusted.trusts(file, data)
        files.append(SettingsFile(file, data, is_trusted, not is_trusted and trusted.knows(file)))
    return tuple(files)


def read_folder_file(folder: Path) -> bytes | None:
    """Return the content of `rlm.toml` in `folder`, or None if there is none.

    The file may be hostile: a pipe would block and a link could show another file. Raises ConfigurationError
    if it is not a regular file in `folder`, or too large.
    """
    path = folder / FILE_NAME
    try:
        real = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    if not Path(real).is_relative_to(os.path.realpath(folder)):
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
