"""Gives a kernel its own user id, if the driver is root.

Linux does not apply RLIMIT_NPROC to root, so a kernel of root could fork without limit. It does apply it to
an unused user id. The id is one of the host's, mapped into the kernel's user namespace next to root.
"""

from __future__ import annotations

import os
from collections.abc import Iterable
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["become", "spare_user", "threads_of_user"]

_UNUSED = 0x7000_0000
"""Start of the ids that no distribution, container runtime or directory service assigns."""
_PROCESS_IDS = 2**22
_NOBODY = 65534
_NEEDED = sum(1 << capability for capability in (0, 1, 5, 6, 7))
"""chown, dac_override, kill, setgid, setuid: needed to change ids and to serve their files."""
_PR_SET_DUMPABLE = 4
_PR_SET_SECUREBITS, _NO_SETUID_FIXUP = 28, 1 << 2


def spare_user() -> int | None:
    """Return an unused id for a kernel, or None if this process needs none or may not change ids."""
    if os.geteuid() != 0:
        return None
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff"))
    if effective & _NEEDED != _NEEDED:
        return None
    ranges = [tuple(map(int, line.split())) for line in Path("/proc/self/uid_map").read_text().splitlines()]
    # Linux before 5.14 counts all processes of an id together, so each kernel gets its own id.
    for wanted in (_UNUSED + os.getpid() % _PROCESS_IDS, _NOBODY):
        if any(inside <= wanted < inside + count for inside, _, count in ranges):
            return wanted
    return None


def become(user: int, *, owned: Iterable[str], needed: Iterable[str]) -> str:
    """Switch to `user` for good, keeping the group, and give it the folders `owned` with their files.

    Stays root if `user` could not read the paths in `needed`. Returns the detail for the report.
    """
    os.setgroups([])
    unreadable = _unreadable(user, needed)
    if unreadable:
        return f"processes are NOT bounded: the kernel must stay root, only root can read {unreadable}"
    for folder in owned:
        for path in (Path(folder), *Path(folder).iterdir()):
            os.chown(path, user, -1, follow_symlinks=False)
    # Without this, leaving root would remove capabilities that the next layer needs to drop all of them.
    check_result(libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0), "prctl(SECUREBITS)")
    os.setresuid(user, user, user)
    # Otherwise its own /proc/self would belong to root.
    check_result(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(DUMPABLE)")
    return f"on, as user {user}"


def threads_of_user() -> int:
    """Count the threads of this user on the machine.

    Without its own user namespace, a kernel's threads are counted together with them.
    """
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
