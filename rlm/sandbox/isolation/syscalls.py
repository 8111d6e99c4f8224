"""Makes system calls that Python does not wrap, by name.

The numbers are from Linux's own tables (`arch/x86/entry/syscalls/syscall_64.tbl` and
`include/uapi/asm-generic/unistd.h`). The aarch64 column is untested.
"""

from __future__ import annotations

import ctypes
import errno
import os
import platform
import sys
from collections.abc import Mapping

__all__ = ["MACHINES", "Unsupported", "libc", "number", "syscall"]


class Unsupported(OSError):
    """This machine or operating system does not support the mechanism."""


#                          x86_64  aarch64 (None: that machine has no such call)
_TABLE: Mapping[str, tuple[int, int | None]] = {
    "acct": (163, 89),
    "add_key": (248, 217),
    "adjtimex": (159, 171),
    "bind": (49, 200),
    "bpf": (321, 280),
    "capset": (126, 91),
    "chroot": (161, 51),
    "clock_adjtime": (305, 266),
    "clock_settime": (227, 112),
    "clone": (56, 220),
    "clone3": (435, 435),
    "connect": (42, 203),
    "delete_module": (176, 106),
    "fanotify_init": (300, 262),
    "finit_module": (313, 273),
    "fsconfig": (431, 431),
    "fsmount": (432, 432),
    "fsopen": (430, 430),
    "fspick": (433, 433),
    "init_module": (175, 105),
    "inotify_add_watch": (254, 27),
    "inotify_init": (253, None),
    "inotify_init1": (294, 26),
    "io_uring_enter": (426, 426),
    "io_uring_register": (427, 427),
    "io_uring_setup": (425, 425),
    "ioperm": (173, None),
    "iopl": (172, None),
    "ioprio_set": (251, 30),
    "kcmp": (312, 272),
    "kexec_file_load": (320, 294),
    "kexec_load": (246, 104),
    "keyctl": (250, 219),
    "landlock_add_rule": (445, 445),
    "landlock_create_ruleset": (444, 444),
    "landlock_restrict_self": (446, 446),
    "link": (86, None),
    "linkat": (265, 37),
    "lookup_dcookie": (212, 18),
    "memfd_create": (319, 279),
    "memfd_secret": (447, 447),
    "mknod": (133, None),
    "mknodat": (259, 33),
    "modify_ldt": (154, None),
    "mount": (165, 40),
    "mount_setattr": (442, 442),
    "move_mount": (429, 429),
    "mq_open": (240, 180),
    "mq_unlink": (241, 181),
    "msgctl": (71, 187),
    "msgget": (68, 186),
    "msgrcv": (70, 188),
    "msgsnd": (69, 189),
    "name_to_handle_at": (303, 264),
    "open_by_handle_at": (304, 265),
    "open_tree": (428, 428),
    "perf_event_open": (298, 241),
    "personality": (135, 92),
    "pidfd_getfd": (438, 438),
    "pivot_root": (155, 41),
    "prlimit64": (302, 261),
    "process_madvise": (440, 440),
    "process_vm_readv": (310, 270),
    "process_vm_writev": (311, 271),
    "ptrace": (101, 117),
    "quotactl": (179, 60),
    "quotactl_fd": (443, 443),
    "reboot": (169, 142),
    "request_key": (249, 218),
    "sched_setaffinity": (203, 122),
    "sched_setattr": (314, 274),
    "sched_setparam": (142, 118),
    "sched_setscheduler": (144, 119),
    "semctl": (66, 191),
    "semget": (64, 190),
    "semop": (65, 193),
    "semtimedop": (220, 192),
    "setdomainname": (171, 162),
    "sethostname": (170, 161),
    "setns": (308, 268),
    "setpriority": (141, 140),
    "settimeofday": (164, 170),
    "shmat": (30, 196),
    "shmctl": (31, 195),
    "shmget": (29, 194),
    "socket": (41, 198),
    "socketpair": (53, 199),
    "swapoff": (168, 225),
    "swapon": (167, 224),
    "syslog": (103, 116),
    "umount2": (166, 39),
    "unshare": (272, 97),
    "uselib": (134, None),
    "userfaultfd": (323, 282),
    "vhangup": (153, 58),
}

MACHINES: tuple[str, ...] = ("x86_64", "aarch64")


def number(name: str, machine: str | None = None) -> int | None:
    """Return the number of a system call on `machine` (default: this one), or None if it has no such call."""
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise Unsupported(errno.ENOSYS, f"no table of system calls for {machine}")
    return _TABLE[name][MACHINES.index(machine)]


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
