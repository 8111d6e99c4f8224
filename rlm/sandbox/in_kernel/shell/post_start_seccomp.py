"""Puts a filter of system calls on the whole process, all its threads: after its sockets are bound."""

from __future__ import annotations

import ctypes
import platform
import struct
import time
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

__all__ = ["install", "wait_for_libzmq"]

_SECCOMP = {"x86_64": 317, "aarch64": 277}
_SET_MODE_FILTER, _EVERY_THREAD = 1, 1
_INSTRUCTION = 8
_LIBZMQ_NAME = "ZMQbg/"
"""What the names of its threads begin with, in every version that names them."""
_LIBZMQ_THREADS = 2
_BEGIN_SECONDS = 2.0
_TASKS = Path("/proc/self/task")


def wait_for_libzmq() -> None:
    """Until its threads have begun: one does its sockets' work, one removes them. Each sets how it is
    scheduled, aborts the process when it may not, and then takes its name. Goes on after two seconds, and at
    once where no names are shown: only level 2 can be without /proc, and its filter leaves scheduling alone.
    """
    end = time.monotonic() + _BEGIN_SECONDS
    while _TASKS.is_dir() and time.monotonic() < end:
        if sum(name.startswith(_LIBZMQ_NAME) for name in _thread_names()) >= _LIBZMQ_THREADS:
            return
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


def _thread_names() -> Iterator[str]:
    for thread in _TASKS.iterdir():
        with suppress(OSError):  # it has ended since
            yield (thread / "comm").read_text()
