"""Temporary folders that belong to a process and must not outlive it, even if it is killed."""

from __future__ import annotations

import json
import os
import re
import tempfile
import time
from collections.abc import Iterator
from contextlib import suppress
from dataclasses import asdict
from pathlib import Path
from typing import Literal

from rlm.sandbox.folders.owner_process import OwnerProcess
from rlm.sandbox.folders.removal import remove

__all__ = ["Purpose", "private_folder", "sweep_folders"]

Purpose = Literal["context", "kernel", "probe", "worker"]

_NAME = re.compile(r"rlm-(context|kernel|probe|worker)-\d+-\w+")
_OWNER = "owner.json"
_UNOWNED_SECONDS = 60.0
"""A folder without an owner file is being created, or its creator was killed meanwhile. After this age it is
assumed to be left over."""


def private_folder(purpose: Purpose, top: Path | None = None) -> Path:
    """Create a folder in `top` that only this user can read, owned by this process. Raises OSError.

    `top` is the temp folder by default.
    """
    folder = Path(tempfile.mkdtemp(prefix=f"rlm-{purpose}-{os.getpid()}-", dir=top))
    try:
        (folder / _OWNER).write_text(json.dumps(asdict(OwnerProcess.here())), "utf-8")
    except BaseException:
        remove(folder)
        raise
    return folder


def sweep_folders(top: Path) -> None:
    """Remove this user's folders in `top` whose processes have ended. Safe to run concurrently."""
    for folder in _folders(top):
        if _is_left(folder):
            remove(folder)


def _folders(top: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(top) as entries:
        for entry in entries:
            if not _NAME.fullmatch(entry.name):
                continue
            with suppress(OSError):
                # Never follow a link or touch another user's folder: all users share this place.
                if (
                    entry.is_dir(follow_symlinks=False)
                    and entry.stat(follow_symlinks=False).st_uid == os.geteuid()
                ):
                    yield Path(entry.path)


def _is_left(folder: Path) -> bool:
    try:
        owner = json.loads((folder / _OWNER).read_bytes())
    except (OSError, ValueError):
        try:
            return time.time() - folder.stat().st_mtime > _UNOWNED_SECONDS
        except OSError:
            return False
    try:
        return OwnerProcess(**owner).is_gone()
    except TypeError:
        return False  # written by another version of rlm: leave it
