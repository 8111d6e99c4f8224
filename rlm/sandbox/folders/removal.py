"""Removes what a hostile process has left: folders of any depth, without permissions, in any number."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["remove", "wait_at_most"]

_CONTENTS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


def remove(folder: Path) -> None:
    """Remove a folder and its contents, without following links.

    Call it when no process can write there any more. Raises nothing: what cannot be removed stays.
    `shutil.rmtree` recurses, and fails on folders without permissions. This function keeps one folder open
    and the names that lead to it.
    """
    with suppress(OSError):
        os.close(_empty(_open_folder(str(folder), None)))
        folder.rmdir()


def wait_at_most(seconds: float, work: Callable[[], object]) -> None:
    """Run `work` in a thread and wait for it that long at most. The rest runs in the background.

    A cell that made a million folders must not delay the next step.
    """
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)


def _empty(here: int) -> int:
    """Remove the contents of an open folder. Return its descriptor, which may be a new one."""
    names: list[str] = []
    kept: list[set[str]] = [set()]
    while True:
        name = _remove_files(here, kept[-1])
        if name is not None:
            try:
                below = _open_folder(name, here)
            except OSError:
                kept[-1].add(name)
                continue
            os.close(here)
            here = below
            names.append(name)
            kept.append(set())
        elif names:
            above = os.open("..", _CONTENTS, dir_fd=here)
            os.close(here)
            here = above
            kept.pop()
            name = names.pop()
            try:
                os.rmdir(name, dir_fd=here)
            except OSError:
                kept[-1].add(name)
        else:
            return here


def _remove_files(here: int, kept: set[str]) -> str | None:
    """Remove files until a folder is found, and return its name.

    Returns None if only names in `kept` are left. Files that cannot be removed are added to `kept`.
    """
    while True:
        found = False
        with os.scandir(here) as entries:
            for entry in entries:
                if entry.name in kept:
                    continue
                if entry.is_dir(follow_symlinks=False):
                    return entry.name
                found = True
                try:
                    os.unlink(entry.name, dir_fd=here)
                except OSError:
                    kept.add(entry.name)
        # Removing entries while listing may hide others: list again.
        if not found:
            return None


def _open_folder(name: str, above: int | None) -> int:
    """Open a folder that is not a link, after giving its owner all permissions."""
    # A handle of the folder itself: its name may become a link at any moment, and chmod would follow it.
    handle = os.open(name, os.O_PATH | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=above)
    try:
        # Without write permission it could be listed but not emptied.
        Path(f"/proc/self/fd/{handle}").chmod(0o700)
        return os.open(".", _CONTENTS, dir_fd=handle)
    finally:
        os.close(handle)
