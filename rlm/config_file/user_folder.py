"""The user's folder of settings."""

from __future__ import annotations

import os
import pwd
from collections.abc import Mapping
from pathlib import Path

__all__ = ["user_config_folder"]


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
