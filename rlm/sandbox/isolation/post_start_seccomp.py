"""The seccomp filter that a kernel adds after its start, on top of the first one.

The kernel installs it once its own sockets are bound (`in_kernel/shell/post_start_seccomp.py`). From then on
no socket can be added to that folder, which is on the host's disk. Landlock cannot do this: it allows
sockets there for the start and is never told otherwise. At level 1 the kernel shares
the host's network and files, so the filter also keeps it from connecting to the host's Unix sockets.

The first filter has already checked the machine's architecture.
"""

from __future__ import annotations

import errno
import platform
import struct

from rlm.sandbox.isolation.syscalls import Unsupported, number

__all__ = ["post_start_program"]

_MAKE_FILES = ("bind", "link", "linkat", "mknod", "mknodat")
_SCHEDULE = ("sched_setattr", "sched_setparam", "sched_setscheduler")
"""These calls can slow down other visible processes. libzmq's threads call one when they start."""

_LOAD, _EQUAL, _AND, _RETURN = 0x20, 0x15, 0x54, 0x06
_NUMBER, _SECOND_ARGUMENT = 0, 24
_ALLOW, _ERRNO = 0x7FFF_0000, 0x0005_0000
_TYPE_OF_SOCKET = 0xF
_SOCK_DGRAM = 2

Instruction = tuple[int, int, int, int]


def post_start_program(level: int, machine: str | None = None) -> bytes:
    """Return the filter of `level` as the bytes of its instructions.

    It refuses bind() and the other calls that create a socket's file or another name for one. At level 1 it
    also refuses socket(), connect() and the calls that schedule processes. socketpair() stays for asyncio
    and subprocesses, but not for datagrams: one end of such a pair can send to any address. accept() stays,
    because the broker connects to the kernel.
    """
    machine = machine or platform.machine()
    steps: list[Instruction] = [(_LOAD, 0, 0, _NUMBER)]
    for name in _MAKE_FILES:
        denied = number(name, machine)
        if denied is not None:
            steps += [(_EQUAL, 0, 1, denied), (_RETURN, 0, 0, _ERRNO | errno.EACCES)]
    if level == 1:
        for name in _SCHEDULE:
            steps += [(_EQUAL, 0, 1, _require_number(name, machine)), (_RETURN, 0, 0, _ERRNO | errno.EPERM)]
        for name in ("socket", "connect"):
            # EOPNOTSUPP, because libzmq aborts the process on EPERM.
            steps += [
                (_EQUAL, 0, 1, _require_number(name, machine)),
                (_RETURN, 0, 0, _ERRNO | errno.EOPNOTSUPP),
            ]
        steps += [
            (_EQUAL, 0, 4, _require_number("socketpair", machine)),
            (_LOAD, 0, 0, _SECOND_ARGUMENT),
            (_AND, 0, 0, _TYPE_OF_SOCKET),
            (_EQUAL, 0, 1, _SOCK_DGRAM),
            (_RETURN, 0, 0, _ERRNO | errno.EOPNOTSUPP),
        ]
    steps.append((_RETURN, 0, 0, _ALLOW))
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


def _require_number(name: str, machine: str) -> int:
    found = number(name, machine)
    if found is None:
        raise Unsupported(errno.ENOSYS, f"no {name} on {machine}")
    return found
