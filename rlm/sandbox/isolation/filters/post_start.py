"""The seccomp filter that a kernel adds after its start, on top of the first one.

The kernel installs it once its own sockets are bound (`in_kernel/shell/post_start_seccomp.py`). From then on
no socket can be added to that folder, which is on the host's disk. Landlock cannot do this: it allows
sockets there for the start and is never told otherwise. At level 1 the kernel shares the host's network and
files, so the filter also keeps it from connecting to the host's Unix sockets.
"""

from __future__ import annotations

import errno
import socket

from rlm.sandbox.isolation.filters.allowlist import Condition, Rule, compile_allowlist, refuse
from rlm.sandbox.isolation.filters.kernel import KERNEL_RULES

__all__ = ["post_start_program"]

_FOR_THE_START = {"bind": refuse(errno.EACCES), "seccomp": refuse(errno.EPERM)}
_TYPE_OF_SOCKET = 0xF
_AT_LEVEL_1 = {
    # It can slow down other visible processes. libzmq's threads call it when they start.
    "sched_setscheduler": refuse(errno.EPERM),
    # EOPNOTSUPP, because libzmq aborts the process on EPERM.
    "socket": refuse(errno.EOPNOTSUPP),
    "connect": refuse(errno.EOPNOTSUPP),
    # asyncio and subprocesses need pairs, but one end of a pair of datagram sockets can send to any address.
    "socketpair": Rule(
        (
            Condition(0, (socket.AF_UNIX,)),
            Condition(1, (socket.SOCK_STREAM, socket.SOCK_SEQPACKET), _TYPE_OF_SOCKET),
        ),
        errno.EOPNOTSUPP,
    ),
}


def post_start_program(level: int, machine: str | None = None) -> bytes:
    """Return the filter of `level` as the bytes of its instructions.

    It allows what a kernel may call, but neither bind() nor another filter. At level 1 it also refuses
    socket(), connect(), pairs of datagram sockets and the call that schedules processes. accept() stays,
    because the broker connects to the kernel.
    """
    return compile_allowlist(
        {**KERNEL_RULES, **_FOR_THE_START, **(_AT_LEVEL_1 if level == 1 else {})}, machine
    )
