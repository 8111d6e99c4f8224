"""Creates a control group (v2) for one kernel, which bounds all its processes together."""

from __future__ import annotations

import itertools
import os
import select
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Self

__all__ = ["Cgroup", "CgroupUnavailable", "place"]

_MOUNTS = Path("/proc/self/mountinfo")
_MEMBERSHIP = Path("/proc/self/cgroup")
_CONTROLLERS = frozenset({"memory", "pids"})
_PREFIX = "rlm-"
_MB = 2**20
_SLACK_MB = 64
"""Room for the launcher's interpreters, page tables and sockets."""
_OWN_PROCESSES = 8
_EMPTY_SECONDS = 5.0

_numbers = itertools.count()


class CgroupUnavailable(OSError):
    """No group can be created here. The message holds the reason."""


class Cgroup:
    """One group. Its creator stays outside and removes it when its processes have ended."""

    def __init__(self, parent: int, name: str) -> None:
        self._parent = parent
        self._name = name
        self._folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY, dir_fd=parent)
        self._members = self._open("cgroup.procs", os.O_WRONLY)

    @classmethod
    def create(cls, *, memory_mb: int, scratch_mb: int, processes: int) -> Self:
        """Create a group with limits for memory (the scratch counts as memory) and processes, without swap.

        Threads count as processes. Raises CgroupUnavailable.
        """
        folder = place()
        _sweep(folder)
        # Kept open, because the host's paths are gone once the root has changed.
        parent = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        name = f"{_PREFIX}{os.getpid()}-{next(_numbers)}"
        os.mkdir(name, 0o700, dir_fd=parent)
        group = cls(parent, name)
        try:
            group._write("memory.max", str((memory_mb + scratch_mb + _SLACK_MB) * _MB))
            group._write("pids.max", str(processes + _OWN_PROCESSES))
            with suppress(FileNotFoundError):
                group._write("memory.swap.max", "0")
        except OSError:
            group.remove()
            raise
        return group

    def enter(self) -> None:
        """Move the calling process, and all that it will start, into the group."""
        os.write(self._members, b"0")

    def close(self) -> None:
        """Close the descriptors without removing the group."""
        for descriptor in (self._members, self._folder, self._parent):
            os.close(descriptor)

    def remove(self) -> None:
        """Kill the processes left in the group, wait until it is empty, and remove it."""
        with suppress(OSError):
            self._write("cgroup.kill", "1")
        self._await_empty()
        with suppress(OSError):
            os.rmdir(self._name, dir_fd=self._parent)
        self.close()

    def _await_empty(self) -> None:
        events = self._open("cgroup.events", os.O_RDONLY)
        waiting = select.poll()
        waiting.register(events, select.POLLPRI)
        try:
            while b"populated 1" in os.pread(events, 4096, 0):
                if not waiting.poll(_EMPTY_SECONDS * 1_000):
                    return
        finally:
            os.close(events)

    def _open(self, name: str, flags: int) -> int:
        return os.open(name, flags | os.O_CLOEXEC, dir_fd=self._folder)

    def _write(self, name: str, value: str) -> None:
        descriptor = self._open(name, os.O_WRONLY)
        try:
            os.write(descriptor, value.encode())
        finally:
            os.close(descriptor)


def place() -> Path:
    """Return the nearest enclosing group in which groups can be created. Raises CgroupUnavailable."""
    root = _mount_point()
    if root is None:
        raise CgroupUnavailable("no cgroup v2 is mounted")
    offered = set((root / "cgroup.controllers").read_text().split())
    if not offered >= _CONTROLLERS:
        raise CgroupUnavailable(
            f"cgroup v2 has no {' and '.join(sorted(_CONTROLLERS - offered))} controller here"
        )
    for folder in _around(root):
        writable = os.access(folder, os.W_OK | os.X_OK) and os.access(folder / "cgroup.procs", os.W_OK)
        if writable and _delegates(folder):
            return folder
    raise CgroupUnavailable("no cgroup around this process may be written to by this user")


def _mount_point() -> Path | None:
    for line in _MOUNTS.read_text().splitlines():
        fields, _, kind = line.partition(" - ")
        if kind.split()[0] == "cgroup2":
            return Path(fields.split()[4])
    return None


def _around(root: Path) -> Iterator[Path]:
    """Yield the group of this process, then the groups around it, from inside out."""
    own = next((line[3:] for line in _MEMBERSHIP.read_text().splitlines() if line.startswith("0::")), "/")
    folder = root / own.strip().lstrip("/")
    while folder.is_relative_to(root):
        if folder.is_dir():
            yield folder
        folder = folder.parent


def _delegates(folder: Path) -> bool:
    """Return whether groups in `folder` get the controllers, after enabling them if possible."""
    control = folder / "cgroup.subtree_control"
    try:
        if not set(control.read_text().split()) >= _CONTROLLERS:
            control.write_text(" ".join(f"+{name}" for name in sorted(_CONTROLLERS)))
        return set(control.read_text().split()) >= _CONTROLLERS
    except OSError:
        # A group that holds processes itself cannot. One further out may.
        return False


def _sweep(folder: Path) -> None:
    """Remove the empty groups of launchers that were killed."""
    for group in folder.glob(f"{_PREFIX}*-*"):
        pid = group.name.removeprefix(_PREFIX).partition("-")[0]
        if pid.isdecimal() and not Path("/proc", pid).exists():
            with suppress(OSError):
                group.rmdir()
