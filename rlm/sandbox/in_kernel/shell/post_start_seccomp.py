"""Applies a seccomp filter to all threads of this process, after its sockets are bound."""

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
"""Prefix of libzmq's thread names, in every version that names them."""
_LIBZMQ_THREADS = 2
_BEGIN_SECONDS = 2.0
_TASKS = Path("/proc/self/task")


def wait_for_libzmq() -> None:
    """Wait until libzmq's two threads have started.

    Each thread sets its own scheduling, aborts the process if that is refused, and then takes its name.
    Gives up after two seconds, or at once without /proc: only level 2 can lack it, and the filter of level
    2 allows scheduling.
    """
    end = time.monotonic() + _BEGIN_SECONDS
    while _TASKS.is_dir() and time.monotonic() < end:
        if sum(name.startswith(_LIBZMQ_NAME) for name in _thread_names()) >= _LIBZMQ_THREADS:
            return
        time.sleep(0.0005)


def install(program: bytes) -> None:
    """Apply `program`, instructions of classic BPF. Needs no_new_privileges first. Raises OSError."""
    libc = ctypes.CDLL(None, use_errno=True)
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // _INSTRUCTION, ctypes.addressof(code))
    arguments = (_SECCOMP[platform.machine()], _SET_MODE_FILTER, _EVERY_THREAD)
    result: int = libc.syscall(*map(ctypes.c_long, arguments), header)
    if result != 0:
        # A positive result is the id of a thread that could not be filtered.
        raise OSError(ctypes.get_errno(), f"seccomp: the post-start filter cannot be applied ({result})")


def _thread_names() -> Iterator[str]:
    for thread in _TASKS.iterdir():
        with suppress(OSError):  # the thread has ended
            yield (thread / "comm").read_text()
