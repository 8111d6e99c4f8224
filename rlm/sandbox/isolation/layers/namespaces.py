"""Forks into new namespaces: users, mounts, processes, network, IPC, host name and control group."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

from rlm.sandbox.isolation.syscalls import check_result, libc, number

__all__ = ["die_with_parent", "fork_inside", "hide_control_group"]

_NEWNS = 0x0002_0000
_NEWCGROUP = 0x0200_0000
_NEWUTS = 0x0400_0000
_NEWIPC = 0x0800_0000
_NEWUSER = 0x1000_0000
_NEWPID = 0x2000_0000
_NEWNET = 0x4000_0000
_PR_SET_PDEATHSIG = 1


def fork_inside(spare: int | None = None) -> int:
    """Fork as `os.fork` does. The child is process 1 of new namespaces.

    When it ends, every process in its namespaces ends. It keeps user and group id, and its network has no
    loopback that is up. `spare` maps a second id, for a user and a group, which only root may do. The caller
    stays outside and must have one thread.
    """
    uid, gid = os.getuid(), os.getgid()
    second = "" if spare is None else f"\n{spare} {spare} 1"
    reading, writing = os.pipe()
    child = _clone(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWUTS | _NEWNET | signal.SIGCHLD)
    if not child:
        os.close(writing)
        # Wait until the parent has written the id maps.
        if not os.read(reading, 1):
            os._exit(1)
        os.close(reading)
        return 0
    try:
        if spare is None:
            Path(f"/proc/{child}/setgroups").write_text("deny")
        Path(f"/proc/{child}/uid_map").write_text(f"{uid} {uid} 1{second}")
        Path(f"/proc/{child}/gid_map").write_text(f"{gid} {gid} 1{second}")
        os.write(writing, b"1")
    except OSError:
        os.kill(child, signal.SIGKILL)
        os.waitpid(child, 0)
        raise
    finally:
        os.close(reading)
        os.close(writing)
    return child


def _clone(flags: int) -> int:
    """Fork with new namespaces in one system call.

    The C library does not know: in the child it holds the parent's thread id until the next fork. Nothing
    uses it there.
    """
    python, here = ctypes.pythonapi, ctypes.PyDLL(None, use_errno=True)
    arguments = [ctypes.c_long(value) for value in (number("clone"), flags, 0, 0, 0, 0)]
    python.PyOS_BeforeFork()
    child: int = here.syscall(*arguments)
    if child == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return check_result(child, "clone")


def hide_control_group() -> None:
    """Make this process's control group the root of what it can see, so that /proc does not name the host's.
    Call it in the new namespaces, after entering the group. Linux before 4.6 keeps the name visible."""
    libc.unshare(_NEWCGROUP)


def die_with_parent(signal_number: int = 9) -> None:
    """Get this signal when the parent ends, even if it is killed."""
    check_result(libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PDEATHSIG)")
