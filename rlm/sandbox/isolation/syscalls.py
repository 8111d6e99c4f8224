"""Makes system calls that Python does not wrap, by name."""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys

from rlm.sandbox.isolation.syscall_numbers import MACHINES, NUMBERS

__all__ = ["Unsupported", "libc", "number", "syscall"]


class Unsupported(OSError):
    """This machine or operating system does not support the mechanism."""


def number(name: str, machine: str | None = None) -> int | None:
    """Return the number of a system call on `machine` (default: this one), or None if it has no such call."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise Unsupported(errno.ENOSYS, f"no table of system calls for {machine}")
    return NUMBERS[name][MACHINES.index(machine)]


libc = ctypes.CDLL(None, use_errno=True)


def syscall(name: str, *arguments: object) -> int:
    """Make a system call. Raises OSError with the name of the call if it fails."""
    if not sys.platform.startswith("linux"):
        raise Unsupported(errno.ENOSYS, f"{name} is a Linux system call")
    number_here = number(name)
    if number_here is None:
        raise Unsupported(errno.ENOSYS, f"no {name} on this machine")
    # ctypes would pass a Python int as a 32-bit C int.
    converted = [ctypes.c_long(value) if isinstance(value, int) else value for value in arguments]
    result: int = libc.syscall(ctypes.c_long(number_here), *converted)
    return check_result(result, name)


def check_result(result: int, what: str) -> int:
    """Return `result`. Raises OSError with `what` in its message if the result is negative."""
    if result < 0:
        code = ctypes.get_errno()
        raise OSError(code, f"{what}: {os.strerror(code)}")
    return result
