"""Makes system calls that Python and the C library do not wrap."""

from __future__ import annotations

import ctypes
import errno
import os
import platform

__all__ = ["Unsupported", "check_result", "libc", "number", "syscall"]

_NUMBERS = {
    "x86_64": {"capset": 126, "clone": 56, "pivot_root": 155, "seccomp": 317},
    "aarch64": {"capset": 91, "clone": 220, "pivot_root": 41, "seccomp": 277},
}
_EVERYWHERE = {
    "landlock_add_rule": 445,
    "landlock_create_ruleset": 444,
    "landlock_restrict_self": 446,
    "mount_setattr": 442,
}


class Unsupported(OSError):
    """This machine does not support the mechanism."""


def number(name: str) -> int:
    """Return the number of a system call on this machine."""
    if platform.machine() not in _NUMBERS:
        raise Unsupported(errno.ENOSYS, f"no table of system calls for {platform.machine()}")
    return {**_NUMBERS[platform.machine()], **_EVERYWHERE}[name]


libc = ctypes.CDLL(None, use_errno=True)


def syscall(name: str, *arguments: object) -> int:
    """Make a system call. Raises OSError with the name of the call if it fails."""
    # ctypes would pass a Python int as a 32-bit C int.
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc.syscall(ctypes.c_long(number(name)), *converted)
    return check_result(result, name)


def check_result(result: int, what: str) -> int:
    """Return `result`. Raises OSError with `what` in its message if the result is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
