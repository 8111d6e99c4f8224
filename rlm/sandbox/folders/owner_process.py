"""Identifies the process that owns a run or a folder, so that a later one can check if it is alive."""

from __future__ import annotations

import os
import socket
from dataclasses import dataclass
from pathlib import Path

__all__ = ["OwnerProcess"]


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
