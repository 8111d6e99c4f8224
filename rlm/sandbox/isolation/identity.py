"""A user of the kernel's own, where the driver is root.

Linux does not hold root to RLIMIT_NPROC, so root's kernel could fork without end. A user id that nobody
has is held to it. The id is one of the host's, mapped into the kernel's user namespace beside root.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rlm.sandbox.isolation.syscalls import checked, libc

__all__ = ["become", "spare_user", "threads_of_user"]

_UNUSED = 0x7000_0000
"""Where the ids begin that no distribution, container runtime or directory service gives out."""
_PROCESS_IDS = 2**22
_NOBODY = 65534
_NEEDED = sum(1 << capability for capability in (0, 1, 5, 6, 7))
"""chown, dac_override, kill, setgid, setuid: what giving ids away and serving their files takes."""
_PR_SET_DUMPABLE = 4
_PR_SET_SECUREBITS, _NO_SETUID_FIXUP = 28, 1 << 2


def spare_user() -> int | None:
    """An id to run a kernel under; None where this process may not give one away, or needs not."""
    if os.geteuid() != 0:
        return None
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff"))
    if effective & _NEEDED != _NEEDED:
        return None
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    # On Linux before 5.14 all processes of one id are counted together: each kernel has an id of its own.
    for wanted in (_UNUSED + os.getpid() % _PROCESS_IDS, _NOBODY):
        if any(inside <= wanted < inside + count for inside, _, count in ranges):
            return wanted
    return None


def become(user: int, *, owned: Iterable[str], needed: Iterable[str]) -> str:
    """Become `user` for good, keeping the group, and own the folders `owned` with the files in them. Gives
    words for the report; stays root where `user` could not read what is `needed`."""
    os.setgroups([])
    unreadable = _unreadable(user, needed)
    if unreadable:
        return f"processes are NOT bounded: the kernel must stay root, only root can read {unreadable}"
    for folder in owned:
        for path in (Path(folder), *Path(folder).iterdir()):
            os.chown(path, user, -1, follow_symlinks=False)
    # Without this, leaving root would take the capabilities that the next layer needs to drop them all.
    checked(libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0), "prctl(SECUREBITS)")
    os.setresuid(user, user, user)
    # Else its own /proc/self would belong to root.
    checked(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(DUMPABLE)")
    return f"on, as user {user}"


def threads_of_user() -> int:
    """How many threads this user has on the machine: outside a user namespace of its own, a kernel's are
    counted together with them."""
    total = 0
    for entry in Path("/proc").iterdir():
        if entry.name.isdecimal():
            try:
                if entry.stat().st_uid == os.getuid():
                    total += len(list((entry / "task").iterdir()))
            except OSError:
                continue
    return total


def _unreadable(user: int, paths: Iterable[str]) -> str:
    os.seteuid(user)
    try:
        return next((path for path in paths if not _readable(path)), "")
    finally:
        os.seteuid(0)


def _readable(path: str) -> bool:
    wanted = os.R_OK | (os.X_OK if Path(path).is_dir() else 0)
    return os.access(path, wanted, effective_ids=True)
