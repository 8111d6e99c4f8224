"""The folders whose `rlm.toml`, or table [tool.rlm] of `pyproject.toml`, the user trusts."""

from __future__ import annotations

import grp
import hashlib
import json
import os
import pwd
import stat
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlm.errors import ConfigurationError
from rlm.lazy_dataclass import dataclass

__all__ = ["TrustedFolder", "TrustedFolders"]

_NAME = "trusted.json"


@dataclass(frozen=True, slots=True)
class TrustedFolder:
    """A trusted folder: its real path, with the name of the file if that is not `rlm.toml`, and the SHA-256
    of the settings that it had then."""

    path: Path
    sha256: str


class TrustedFolders:
    """The list in `trusted.json` in the user's folder of settings. A changed file must be trusted again."""

    def __init__(self, users: Path) -> None:
        self._file = users / _NAME

    def list(self) -> tuple[TrustedFolder, ...]:
        """Return the trusted folders, sorted by path. Raises ConfigurationError if the list is damaged."""
        return tuple(TrustedFolder(Path(path), digest) for path, digest in sorted(self._read().items()))

    def knows(self, file: Path) -> bool:
        """Return whether the folder of `file` was trusted, with any content."""
        return _key(file) in self._read()

    def trusts(self, file: Path, data: bytes) -> bool:
        """Return whether the folder of `file` is trusted with this content, and is still the user's alone."""
        digest = self._read().get(_key(file))
        return digest == _digest(data) and _find_other_writer(file) is None

    def add(self, file: Path, data: bytes) -> None:
        """Trust the folder of `file` with this content. Raises ConfigurationError if others can change it."""
        reason = _find_other_writer(file)
        if reason is not None:
            raise ConfigurationError(
                f"{reason}, so it can't be trusted: change that (chown, chmod go-w), or use --config {file}"
            )
        self._write({**self._read(), _key(file): _digest(data)})

    def remove(self, file: Path) -> bool:
        """Stop trusting the folder of `file`. Return False if it was not trusted."""
        kept = self._read()
        was_trusted = kept.pop(_key(file), None) is not None
        if was_trusted:
            self._write(kept)
        return was_trusted

    def _read(self) -> dict[str, str]:
        try:
            stored: Any = json.loads(self._file.read_bytes())
            folders: dict[str, str] = {str(path): str(digest) for path, digest in stored["folders"].items()}
        except FileNotFoundError:
            return {}
        except (ValueError, KeyError, TypeError, AttributeError):
            raise ConfigurationError(
                f"{self._file} is damaged: remove it, and trust your folders again"
            ) from None
        except OSError as error:
            raise ConfigurationError(f"{self._file} can't be read: {error.strerror}") from None
        return folders

    def _write(self, folders: dict[str, str]) -> None:
        text = json.dumps({"folders": folders}, indent=2, sort_keys=True) + "\n"
        temporary = self._file.with_name(f".{_NAME}.{os.getpid()}")
        try:
            self._file.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW | os.O_CLOEXEC
            with os.fdopen(os.open(temporary, flags, 0o600), "w", encoding="utf-8") as stream:
                stream.write(text)
            temporary.replace(self._file)
        except OSError as error:
            with suppress(OSError):
                temporary.unlink()
            raise ConfigurationError(f"{self._file} can't be written: {error.strerror}") from None


def _key(file: Path) -> str:
    folder = os.path.realpath(file.parent)
    return folder if file.name == "rlm.toml" else f"{folder}/{file.name}"


def _digest(data: bytes) -> str:
    return hashlib.sha256(data).hexdigest()


def _find_other_writer(file: Path) -> str | None:
    """Return why somebody else could change the file or its folder; None if only the user can."""
    for path in (file.parent, file):
        try:
            status = path.stat()
        except OSError as error:
            return f"{path} can't be examined ({error.strerror})"
        if status.st_uid != os.getuid():
            return f"{path} does not belong to you"
        if status.st_mode & stat.S_IWOTH:
            return f"{path} is writable by others"
        if status.st_mode & stat.S_IWGRP and not _is_private_group(status.st_gid):
            return f"{path} is writable by its group"
    return None


def _is_private_group(gid: int) -> bool:
    """Return whether the group is the user's own, without other members: many systems give each user one."""
    try:
        group, user = grp.getgrgid(gid), pwd.getpwuid(os.getuid())
    except KeyError:
        return False
    return user.pw_gid == gid and group.gr_name == user.pw_name and set(group.gr_mem) <= {user.pw_name}
