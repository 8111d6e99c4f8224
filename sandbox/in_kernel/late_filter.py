"""Puts a filter of system calls on the whole process, all its threads: after its sockets are bound."""

from __future__ import annotations

import ctypes
import platform
import struct

__all__ = ["install"]

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _EVERY_THREAD = 1, 1
_INSTRUCTION = 8


def install(program: bytes) -> None:
    """`program` holds instructions of classic BPF. Needs no_new_privileges. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // _INSTRUCTION, ctypes.addressof(code))
    arguments = (_SECCOMP[platform.machine()], _SET_MODE_FILTER, _EVERY_THREAD)
    result: int = libc.syscall(*map(ctypes.c_long, arguments), header)
    if result != 0:
        # Above zero it is the number of a thread that could not be brought under the filter.
        raise OSError(ctypes.get_errno(), f"seccomp: the late filter can't be put on ({result})")
