"""Temporary folders that belong to a process and must not outlive it, even if it is killed.

They are removed whatever a hostile process has left in them: folders of any depth, without permissions, in
any number.
"""

from __future__ import annotations

import json
import os
import re
import socket
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Literal

__all__ = ["OwnerProcess", "Purpose", "private_folder", "remove", "sweep_folders", "wait_at_most"]

Purpose = Literal["context", "kernel", "probe", "worker"]

_NAME = re.compile(r"rlm-(context|kernel|probe|worker)-\d+-\w+")
_OWNER = "owner.json"
_UNOWNED_SECONDS = 60.0
"""A folder without an owner file is being created, or its creator was killed meanwhile. After this age it is
assumed to be left over."""
_CONTENTS = os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC


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


@dataclass(frozen=True, slots=True)
class OwnerProcess:
    """A process, identified by id and start time: an id alone may be reused.

    `started` is in clock ticks since boot. None and empty strings mean that the system does not tell.
    """

    host: str
    boot: str
    namespace: str
    pid: int
    started: str | None

    @classmethod
    def here(cls) -> OwnerProcess:
        """Return the identity of this process."""
        return cls(
            host=socket.gethostname(),
            boot=_read("/proc/sys/kernel/random/boot_id"),
            namespace=_pid_namespace(),
            pid=os.getpid(),
            started=_start_time(os.getpid()),
        )

    def is_gone(self) -> bool:
        """Return whether the process has certainly ended.

        A process on another host or in another container cannot be checked and counts as alive.
        """
        here = self.here()
        if self.host != here.host:
            return False
        if self.boot != here.boot:
            return True
        if self.namespace != here.namespace:
            return False
        if here.started is not None:
            return self.started != _start_time(self.pid)
        return not _exists(self.pid)


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


def _start_time(pid: int) -> str | None:
    stat = _read(f"/proc/{pid}/stat")
    # the second field is the program's name in parentheses and may hold anything, even parentheses
    after_name = stat.rpartition(")")[2].split()
    if not after_name or after_name[0] in "ZX":  # a zombie does nothing any more
        return None
    return after_name[19]


def _exists(pid: int) -> bool:
    try:
        os.kill(pid, 0)
    except ProcessLookupError:
        return False
    except PermissionError:
        return True
    return True


def _pid_namespace() -> str:
    try:
        return str(Path("/proc/self/ns/pid").readlink())
    except OSError:
        return ""


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace").strip()
    except OSError:
        return ""
