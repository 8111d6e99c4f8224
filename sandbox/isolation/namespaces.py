"""Namespaces of one's own: users, mounts, processes, network, IPC and host name."""

from __future__ import annotations

import os
from pathlib import Path

from sandbox.isolation.syscalls import checked, libc

__all__ = ["die_with_parent", "enter"]

_NEWNS = 0x0002_0000
_NEWUTS = 0x0400_0000
_NEWIPC = 0x0800_0000
_NEWUSER = 0x1000_0000
_NEWPID = 0x2000_0000
_NEWNET = 0x4000_0000
_PR_SET_PDEATHSIG = 1


def enter(spare: int | None = None) -> None:
    """Leave the host's namespaces, keeping user and group id. The next child made is process 1 of the new
    one: when it ends, every process in there ends. The new network has not even a loopback that is up.
    `spare` is a second user id to have in there: only root may ask for one."""
    uid, gid = os.getuid(), os.getgid()
    if spare is None:
        _unshare()
        Path("/proc/self/setgroups").write_text("deny")
        Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
        Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")
        return
    # Whoever is in the new namespace may map one id only: one who stays outside maps two.
    reading, writing = os.pipe()
    helper = os.fork()
    if not helper:
        os._exit(_map(os.getppid(), reading, writing, f"{uid} {uid} 1\n{spare} {spare} 1", f"{gid} {gid} 1"))
    os.close(reading)
    try:
        _unshare()
        os.write(writing, b"1")
    finally:
        os.close(writing)
        _, status = os.waitpid(helper, 0)
    if status != 0:
        raise OSError(os.waitstatus_to_exitcode(status), "a user of the kernel's own could not be mapped")


def _unshare() -> None:
    checked(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWUTS | _NEWNET), "unshare")


def _map(pid: int, reading: int, writing: int, users: str, groups: str) -> int:
    os.close(writing)
    if not os.read(reading, 1):
        return 0
    try:
        Path(f"/proc/{pid}/uid_map").write_text(users)
        Path(f"/proc/{pid}/gid_map").write_text(groups)
    except OSError as error:
        return error.errno or 1
    return 0


def die_with_parent(signal_number: int = 9) -> None:
    """Be killed when the parent goes, however it goes."""
    checked(libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PDEATHSIG)")
