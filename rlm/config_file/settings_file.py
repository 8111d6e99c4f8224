"""Settings files: where they are, and whether they may be read."""

from __future__ import annotations

import os
import pwd
import re
import stat
import tomllib
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rlm.errors import ConfigurationError

__all__ = ["USER_FILE", "SettingsFile", "parse_toml", "settings_files", "user_config_folder"]

FILE_NAME = "rlm.toml"
USER_FILE = "config.toml"
_MAX_BYTES = 1 << 20
_MAX_FOLDER_BYTES = 64 << 10
_MAX_DOTS = 20
"""Dots in a line of a folder's file, outside of strings. A key of n parts takes tomllib n² steps."""
_TEXT = re.compile(
    rb"\"\"\"(?:[^\\]|\\.)*?\"\"\"|'''.*?'''|\"(?:[^\"\\\n]|\\.)*\"|'[^'\n]*'|#[^\n]*", re.DOTALL
)


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """A settings file and its content, read once: what is checked is what is used.

    is_users: the user wrote it. False for the file of a folder.
    """

    path: Path
    data: bytes
    is_users: bool = True


def user_config_folder(env: Mapping[str, str]) -> Path:
    """Return `$XDG_CONFIG_HOME/rlm`, or `~/.config/rlm` without that variable.

    Ignores a relative path in XDG_CONFIG_HOME or HOME: the working folder would decide what it means.
    """
    config = Path(env.get("XDG_CONFIG_HOME", ""))
    if not config.is_absolute():
        home = Path(env.get("HOME", ""))
        config = (home if home.is_absolute() else _home_of_account()) / ".config"
    return config / "rlm"


def _home_of_account() -> Path:
    try:
        return Path(pwd.getpwuid(os.getuid()).pw_dir)
    except KeyError:  # a container may run under an id without an account
        return Path("/")


def settings_files(explicit: Path | None, env: Mapping[str, str], folder: Path) -> tuple[SettingsFile, ...]:
    """Return the existing settings files, in the order of reading.

    The first is the user's: `rlm/config.toml` in `$XDG_CONFIG_HOME`, or in `~/.config` without that variable.
    The last is `explicit`, or else `rlm.toml` of `folder`. Raises ConfigurationError if `explicit` does not
    exist, or if a file cannot be read.
    """
    files = []
    own = user_config_folder(env) / USER_FILE
    if own.exists():
        files.append(SettingsFile(own, _read(own)))
    if explicit is None:
        data = _read_in_folder(folder / FILE_NAME)
        if data is not None:
            files.append(SettingsFile(folder / FILE_NAME, data, is_users=False))
    elif explicit.exists():
        files.append(SettingsFile(explicit, _read(explicit)))
    else:
        raise ConfigurationError(f"{explicit} does not exist: check --config, or write one with `rlm init`")
    return tuple(files)


def parse_toml(path: Path, data: bytes) -> dict[str, Any]:
    """Return the file's values. Raises ConfigurationError with the file's name."""
    try:
        return tomllib.loads(data.decode("utf-8"))
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ConfigurationError(f"{path} is not TOML: {error}") from None
    except RecursionError:
        raise ConfigurationError(f"{path} is not TOML: it is nested too deeply") from None


def _read_in_folder(path: Path) -> bytes | None:
    """Return the bytes of a file that lies in its folder, or None if there is none.

    The file may be hostile: a link could show another file, a pipe would block, and a key of a hundred
    thousand parts would take an hour to parse. Raises ConfigurationError.
    """
    try:
        real = os.path.realpath(path, strict=True)
    except FileNotFoundError:
        return None
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    if not Path(real).is_relative_to(os.path.realpath(path.parent)):
        raise ConfigurationError(f"{path} is a link out of its folder: remove it, or give --config {real}")
    data = _read(path, of_folder=True)
    if any(line.count(b".") > _MAX_DOTS for line in _TEXT.sub(b"", data).splitlines()):
        raise ConfigurationError(f"{path} has a line of over {_MAX_DOTS} dots: that is no settings file")
    return data


def _read(path: Path, *, of_folder: bool = False) -> bytes:
    """Return the bytes of the file. That of a folder must be regular, and smaller."""
    flags = os.O_RDONLY | os.O_CLOEXEC | (os.O_NONBLOCK | os.O_NOCTTY if of_folder else 0)
    limit = _MAX_FOLDER_BYTES if of_folder else _MAX_BYTES
    try:
        descriptor = os.open(path, flags)
        with os.fdopen(descriptor, "rb") as stream:
            if of_folder and not stat.S_ISREG(os.fstat(descriptor).st_mode):
                raise ConfigurationError(f"{path} is not a regular file: remove it, or give --config FILE")
            data = stream.read(limit + 1)
    except OSError as error:
        raise ConfigurationError(f"{path} can't be read: {error.strerror}") from None
    if len(data) > limit:
        raise ConfigurationError(f"{path} is over {limit >> 10:,} kB: that is no settings file")
    return data
