"""Removing what a hostile process has left: folders of any depth, closed to everybody, in any number."""

from __future__ import annotations

import os
import stat
import threading
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

__all__ = ["remove", "wait_at_most"]

_FOLDER = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC


def remove(folder: Path) -> None:
    """Remove a folder and all in it, as far as this user may; never through a link. Whoever could write there
    must have ended. Nothing is raised: what can't be removed stays.

    `shutil.rmtree` goes down by recursion, and stops at what it may not enter. This keeps one folder open and
    the names that lead to it.
    """
    with suppress(OSError):
        os.close(_empty(_open_folder(str(folder), None)))
        folder.rmdir()


def wait_at_most(seconds: float, work: Callable[[], object]) -> None:
    """Do `work` here for that long at most; what is left of it goes on in a thread, as long as this process
    does. Whoever makes a million folders must not hold up what comes after."""
    thread = threading.Thread(target=work, daemon=True)
    thread.start()
    thread.join(seconds)


def _empty(here: int) -> int:
    """Empty an open folder. Gives it back, open."""
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
            above = os.open("..", _FOLDER, dir_fd=here)
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
    """Remove files, until there is a folder among them: its name. None when only `kept` is left, to which
    comes what can't be removed."""
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
        # What is removed during a listing may hide others from it.
        if not found:
            return None


def _open_folder(name: str, above: int | None) -> int:
    """A folder that is no link, open to its owner."""
    if not stat.S_ISDIR(os.stat(name, dir_fd=above, follow_symlinks=False).st_mode):
        raise NotADirectoryError(name)
    # One that was closed can't be emptied, though it can be listed.
    os.chmod(name, 0o700, dir_fd=above)
    return os.open(name, _FOLDER, dir_fd=above)
