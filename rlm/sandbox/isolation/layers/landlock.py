"""Landlock: Linux refuses every path that is not on the list, whatever the mounts show.

Structures and access bits are of Linux's `include/uapi/linux/landlock.h`.
"""

from __future__ import annotations

import ctypes
import os
import struct
from collections.abc import Iterable
from pathlib import Path

from rlm.sandbox.isolation.syscalls import syscall

__all__ = ["restrict"]

_EXECUTE, _WRITE_FILE, _READ_FILE, _READ_DIR = 1, 2, 4, 8
_TRUNCATE, _IOCTL_DEV = 1 << 14, 1 << 15
_OF_FILES = _EXECUTE | _WRITE_FILE | _READ_FILE | _TRUNCATE | _IOCTL_DEV
_RULE_PATH_BENEATH = 1
_VERSION_QUERY = 1

READ = _EXECUTE | _READ_FILE | _READ_DIR


def restrict(*, read: Iterable[str], write: Iterable[str]) -> int:
    """Restrict this process for good and return the Landlock version.

    Paths in `read` can be read and executed, paths in `write` can be changed. From version 4 on TCP is
    refused, from version 6 on the abstract sockets of other processes.
    """
    version = syscall("landlock_create_ruleset", None, 0, _VERSION_QUERY)
    every = (1 << 13) - 1
    if version >= 2:
        every |= 1 << 13
    if version >= 3:
        every |= _TRUNCATE
    if version >= 5:
        every |= _IOCTL_DEV
    attributes = struct.pack("=QQQ", every, 3 if version >= 4 else 0, 3 if version >= 6 else 0)
    size = 8 if version < 4 else 16 if version < 6 else 24
    ruleset = syscall("landlock_create_ruleset", ctypes.c_char_p(attributes[:size]), size, 0)
    try:
        for paths, access in ((read, READ), (write, every)):
            for path in paths:
                _allow(ruleset, path, access & every)
        syscall("landlock_restrict_self", ruleset, 0)
    finally:
        os.close(ruleset)
    return version


def _allow(ruleset: int, path: str, access: int) -> None:
    if not Path(path).exists():
        return
    descriptor = os.open(path, os.O_PATH | os.O_CLOEXEC)
    try:
        if not Path(path).is_dir():
            access &= _OF_FILES
        rule = struct.pack("=Qi", access, descriptor)
        syscall("landlock_add_rule", ruleset, _RULE_PATH_BENEATH, ctypes.c_char_p(rule), 0)
    finally:
        os.close(descriptor)
