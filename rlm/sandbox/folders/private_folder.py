"""Folders in the temp folder that belong to a process and must not outlive it, however it ends."""

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

__all__ = ["Purpose", "private_folder", "socket_top", "sweep_folders"]

Purpose = Literal["context", "kernel", "probe"]

_NAME = re.compile(r"rlm-(context|kernel|probe)-\d+-\w+")
_OWNER = "owner.json"
_LONGEST_TOP = 50
_UNOWNED_SECONDS = 60.0
"""A folder without an owner is being made right now, or its maker was killed in that moment: older than
this it is the latter."""


def private_folder(purpose: Purpose, top: Path) -> Path:
    """A new folder in `top` that only its owner can read; this process is noted in it as the one it belongs
    to. Raises OSError."""
    folder = Path(tempfile.mkdtemp(prefix=f"rlm-{purpose}-{os.getpid()}-", dir=top))
    try:
        (folder / _OWNER).write_text(json.dumps(asdict(OwnerProcess.here())), "utf-8")
    except BaseException:
        remove(folder)
        raise
    return folder


def socket_top() -> Path:
    """The temp folder, or /tmp where its path leaves too little of the 107 bytes of a Unix socket's name."""
    top = tempfile.gettempdir()
    return Path(top if len(os.fsencode(top)) < _LONGEST_TOP else "/tmp")  # noqa: S108


def sweep_folders(top: Path) -> None:
    """Remove this user's folders in `top` whose processes are gone. Another process may do the same at the
    same time."""
    for folder in _folders(top):
        if _is_left(folder):
            remove(folder)


def _folders(top: Path) -> Iterator[Path]:
    with suppress(OSError), os.scandir(top) as entries:
        for entry in entries:
            if not _NAME.fullmatch(entry.name):
                continue
            with suppress(OSError):
                # Never through a link, and never what another user made: this place is everybody's.
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
        return False  # another version of rlm wrote it, and knows what it means
