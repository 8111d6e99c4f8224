"""Takes a kernel's privileges: all capabilities, and root's user and group id, if the driver is root.

A kernel that runs as root could fork without limit, because Linux does not apply RLIMIT_NPROC to root, and it
would own the host's files that it sees. Its id is unused on the host, and is mapped into the kernel's user
namespace next to root. No kernel from level 2 on keeps root's id.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Iterable
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc, syscall

__all__ = ["RootKept", "count_user_threads", "drop", "find_unused_id", "no_new_privileges", "switch_user"]

_FIRST_UNUSED_ID = 0x7000_0000
"""Start of the range of ids that no distribution, container runtime or directory service assigns."""
_MAX_PROCESS_ID = 2**22
_NOBODY = 65534
_NEEDED_CAPABILITIES = sum(1 << capability for capability in (0, 1, 5, 6, 7))
"""chown, dac_override, kill, setgid, setuid: needed to change ids and to serve their files."""
_PR_SET_DUMPABLE = 4
_PR_SET_SECUREBITS, _NO_SETUID_FIXUP = 28, 1 << 2
_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_AMBIENT_CLEAR_ALL = 4
_VERSION_3 = 0x2008_0522


class RootKept(OSError):
    """The kernel would keep root's id. The message holds the reason and the remedy."""


def find_unused_id() -> int | None:
    """Return an unused user and group id for a kernel, or None if this process is not root.

    Root of a user namespace that does not hold the machine's root counts as an ordinary user. Raises RootKept
    if root may not change ids here.
    """
    if os.geteuid() != 0 or Path("/dev/null").stat().st_uid != 0:
        return None
    status = Path("/proc/self/status").read_text()
    effective = next(int(line.split()[1], 16) for line in status.splitlines() if line.startswith("CapEff"))
    if effective & _NEEDED_CAPABILITIES != _NEEDED_CAPABILITIES:
        raise RootKept(
            "the kernel would keep root's id, because root may not change ids here (CAP_SETUID, CAP_SETGID, "
            "CAP_CHOWN, CAP_KILL, CAP_DAC_OVERRIDE): run rlm as an ordinary user"
        )
    # Linux before 5.14 counts all processes of an id together, so each kernel gets its own id.
    for candidate in (_FIRST_UNUSED_ID + os.getpid() % _MAX_PROCESS_ID, _NOBODY):
        if all(_is_mapped(candidate, kind) for kind in ("uid_map", "gid_map")):
            return candidate
    raise RootKept(
        "the kernel would keep root's id, because no other id is mapped into this container: "
        "run rlm as an ordinary user"
    )


def switch_user(user: int, *, owned: Iterable[str], must_read: Iterable[str]) -> str:
    """Switch to `user`, as user and as group, permanently.

    The folders `owned` and their files get the new owner. Raises RootKept if `user` cannot read a path in
    `must_read`. Returns the detail for the report.
    """
    os.setgroups([])
    unreadable = _unreadable(user, must_read)
    if unreadable:
        raise RootKept(
            f"the kernel would keep root's id, because only root can read {unreadable}: "
            f"chmod -R go+rX {unreadable}, or run rlm as an ordinary user"
        )
    for folder in owned:
        for path in (Path(folder), *Path(folder).iterdir()):
            os.chown(path, user, user, follow_symlinks=False)
    # Without this, the switch would remove the capabilities that the next layer needs. That layer then drops
    # all of them.
    check_result(libc.prctl(_PR_SET_SECUREBITS, _NO_SETUID_FIXUP, 0, 0, 0), "prctl(SECUREBITS)")
    os.setresgid(user, user, user)
    os.setresuid(user, user, user)
    # Otherwise root would own this process's /proc/self.
    check_result(libc.prctl(_PR_SET_DUMPABLE, 1, 0, 0, 0), "prctl(DUMPABLE)")
    return f"on, as user {user}"


def count_user_threads() -> int:
    """Count the threads of this user on the machine.

    If a kernel has no user namespace of its own, Linux counts its threads together with these.
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


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop() -> None:
    """Empty the bounding, ambient, effective, permitted and inheritable sets."""
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = _Header(_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    syscall("capset", ctypes.byref(header), none)


def no_new_privileges() -> None:
    """Keep later programs from gaining privileges by setuid."""
    check_result(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")


def _is_mapped(candidate: int, kind: str) -> bool:
    ranges = (map(int, line.split()) for line in Path("/proc/self", kind).read_text().splitlines())
    return any(inside <= candidate < inside + count for inside, _, count in ranges)


def _unreadable(user: int, paths: Iterable[str]) -> str:
    """Return the first path that `user` cannot read, or an empty string."""
    os.setegid(user)
    os.seteuid(user)
    try:
        return next((path for path in paths if not _readable(Path(path))), "")
    finally:
        os.seteuid(0)
        os.setegid(0)


def _readable(path: Path) -> bool:
    mode = os.R_OK | (os.X_OK if path.is_dir() else 0)
    return os.access(path, mode, effective_ids=True)
