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


def enter() -> None:
    """Leave the host's namespaces, keeping user and group id. The next child made is process 1 of the new
    one: when it ends, every process in there ends. The new network has not even a loopback that is up."""
    uid, gid = os.getuid(), os.getgid()
    checked(libc.unshare(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWUTS | _NEWNET), "unshare")
    Path("/proc/self/setgroups").write_text("deny")
    Path("/proc/self/uid_map").write_text(f"{uid} {uid} 1")
    Path("/proc/self/gid_map").write_text(f"{gid} {gid} 1")


def die_with_parent(signal_number: int = 9) -> None:
    """Be killed when the parent goes, however it goes."""
    checked(libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PDEATHSIG)")
