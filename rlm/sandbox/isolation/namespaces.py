"""Namespaces of one's own: users, mounts, processes, network, IPC and host name."""

from __future__ import annotations

import ctypes
import os
import signal
from pathlib import Path

from rlm.sandbox.isolation.syscalls import checked, libc, number

__all__ = ["die_with_parent", "fork_inside"]

_NEWNS = 0x0002_0000
_NEWUTS = 0x0400_0000
_NEWIPC = 0x0800_0000
_NEWUSER = 0x1000_0000
_NEWPID = 0x2000_0000
_NEWNET = 0x4000_0000
_PR_SET_PDEATHSIG = 1


def fork_inside(spare: int | None = None) -> int:
    """As `os.fork`; the child is process 1 of namespaces of its own, and when it ends, every process in there
    ends. It keeps user and group id; its network has not even a loopback that is up. `spare` is a second user
    id to have in there: only root may ask for one. This process stays outside, and must have one thread.
    """
    uid, gid = os.getuid(), os.getgid()
    users = f"{uid} {uid} 1" if spare is None else f"{uid} {uid} 1\n{spare} {spare} 1"
    reading, writing = os.pipe()
    child = _clone(_NEWUSER | _NEWNS | _NEWPID | _NEWIPC | _NEWUTS | _NEWNET | signal.SIGCHLD)
    if not child:
        os.close(writing)
        # Without its ids it could do nothing yet.
        if not os.read(reading, 1):
            os._exit(1)
        os.close(reading)
        return 0
    try:
        if spare is None:
            Path(f"/proc/{child}/setgroups").write_text("deny")
        Path(f"/proc/{child}/uid_map").write_text(users)
        Path(f"/proc/{child}/gid_map").write_text(f"{gid} {gid} 1")
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
    """What `os.fork` does, with namespaces to be made: one system call makes them and the process in them.

    The C library is not told: in the child, until its next fork, it takes the thread's number for the
    parent's. Nothing asks it there.
    """
    python, here = ctypes.pythonapi, ctypes.PyDLL(None, use_errno=True)
    wanted = number("clone")
    assert wanted is not None, "every machine in the table has it"
    arguments = [ctypes.c_long(value) for value in (wanted, flags, 0, 0, 0, 0)]
    python.PyOS_BeforeFork()
    child: int = here.syscall(*arguments)
    if child == 0:
        python.PyOS_AfterFork_Child()
    else:
        python.PyOS_AfterFork_Parent()
    return checked(child, "clone")


def die_with_parent(signal_number: int = 9) -> None:
    """Be killed when the parent goes, however it goes."""
    checked(libc.prctl(_PR_SET_PDEATHSIG, signal_number, 0, 0, 0), "prctl(PDEATHSIG)")
