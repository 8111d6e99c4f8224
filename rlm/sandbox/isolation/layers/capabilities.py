"""Drops all capabilities, now and after any exec."""

from __future__ import annotations

import ctypes

from rlm.sandbox.isolation.syscalls import check_result, libc, syscall

__all__ = ["drop", "no_new_privileges"]

_PR_CAPBSET_DROP = 24
_PR_SET_NO_NEW_PRIVS = 38
_PR_CAP_AMBIENT = 47
_AMBIENT_CLEAR_ALL = 4
_VERSION_3 = 0x2008_0522


class _Header(ctypes.Structure):
    _fields_ = (("version", ctypes.c_uint32), ("pid", ctypes.c_int))


def drop() -> None:
    """Empty the bounding, ambient, effective, permitted and inheritable sets."""
    for capability in range(64):
        if libc.prctl(_PR_CAPBSET_DROP, capability, 0, 0, 0) != 0:
            break
    libc.prctl(_PR_CAP_AMBIENT, _AMBIENT_CLEAR_ALL, 0, 0, 0)
    header = _Header(_VERSION_3, 0)
    none = (ctypes.c_uint32 * 6)()
    syscall("capset", ctypes.byref(header), none)


def no_new_privileges() -> None:
    """Keep later programs from gaining privileges by setuid."""
    check_result(libc.prctl(_PR_SET_NO_NEW_PRIVS, 1, 0, 0, 0), "prctl(NO_NEW_PRIVS)")
