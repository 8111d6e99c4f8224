"""Puts a filter of system calls on the whole process, all its threads: after its sockets are bound."""

from __future__ import annotations

import ctypes
import platform
import struct
import time
from pathlib import Path

__all__ = ["install", "wait_for_libzmq"]

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _EVERY_THREAD = 1, 1
_INSTRUCTION = 8
_LIBZMQ_THREADS = frozenset({"ZMQbg/Reaper", "ZMQbg/IO/0"})
"""Their names, which they take once they have begun."""
_BEGIN_SECONDS = 2.0


def wait_for_libzmq() -> None:
    """Until its threads have begun, by setting how they are scheduled: they abort the process when they may
    not."""
    end = time.monotonic() + _BEGIN_SECONDS
    while not _thread_names() >= _LIBZMQ_THREADS and time.monotonic() < end:
        time.sleep(0.0005)


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


def _thread_names() -> set[str]:
    return {(thread / "comm").read_text().rstrip("\n") for thread in Path("/proc/self/task").iterdir()}
