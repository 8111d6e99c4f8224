"""A seccomp filter that refuses the system calls that no cell needs, and every socket except Unix ones.

Instruction codes are of classic BPF (`linux/filter.h`), offsets of `struct seccomp_data`.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct

from rlm.sandbox.isolation.syscalls import check_result, libc, number

__all__ = ["DENIED", "install", "program"]

DENIED: tuple[str, ...] = (
    "acct", "add_key", "adjtimex", "bpf", "chroot", "clock_adjtime", "clock_settime", "delete_module",
    "fanotify_init", "finit_module", "fsconfig", "fsmount", "fsopen", "fspick", "init_module",
    "inotify_add_watch", "inotify_init", "inotify_init1", "io_uring_enter", "io_uring_register",
    "io_uring_setup", "ioperm", "iopl", "ioprio_set", "kcmp", "kexec_file_load", "kexec_load", "keyctl",
    "lookup_dcookie", "memfd_create", "memfd_secret", "modify_ldt", "mount", "mount_setattr",
    "move_mount", "mq_open", "mq_unlink", "msgctl", "msgget", "msgrcv", "msgsnd", "name_to_handle_at",
    "open_by_handle_at", "open_tree", "perf_event_open", "personality", "pidfd_getfd", "pivot_root",
    "process_madvise", "process_vm_readv", "process_vm_writev", "ptrace", "quotactl", "quotactl_fd",
    "reboot", "request_key", "sched_setaffinity", "semctl", "semget", "semop", "semtimedop",
    "setdomainname", "sethostname", "setns", "setpriority", "settimeofday", "shmat", "shmctl", "shmget",
    "swapoff", "swapon", "syslog", "umount2", "unshare", "uselib", "userfaultfd", "vhangup",
)  # fmt: skip

_LOAD, _EQUAL, _AT_LEAST, _ANY_BIT, _RETURN = 0x20, 0x15, 0x35, 0x45, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT = 0, 4, 16
_ALLOW, _KILL, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_X32 = 0x4000_0000
_NEW_NAMESPACES = 0x7E02_0000
_AF_UNIX = 1
_PR_SET_SECCOMP, _MODE_FILTER = 22, 2

Instruction = tuple[int, int, int, int]


def program(machine: str) -> list[Instruction]:
    """Return the filter of a machine as (code, jump if true, jump if false, constant)."""

    def refuse(code: int) -> Instruction:
        return (_RETURN, 0, 0, _ERRNO | code)

    allow: Instruction = (_RETURN, 0, 0, _ALLOW)
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
        (_RETURN, 0, 0, _KILL),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, _X32), refuse(errno.EPERM)]
    # A filter cannot read clone3's flags, which are behind a pointer. ENOSYS makes libc fall back to clone.
    steps += [(_EQUAL, 0, 1, _require_number("clone3", machine)), refuse(errno.ENOSYS)]
    steps += [
        (_EQUAL, 0, 4, _require_number("clone", machine)),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_ANY_BIT, 0, 1, _NEW_NAMESPACES),
        refuse(errno.EPERM),
        allow,
    ]
    # A process may lower its own limits, but not those of another process.
    steps += [
        (_EQUAL, 0, 4, _require_number("prlimit64", machine)),
        (_LOAD, 0, 0, _FIRST_ARGUMENT),
        (_EQUAL, 0, 1, 0),
        allow,
        refuse(errno.EPERM),
    ]
    # EOPNOTSUPP, because libzmq aborts the process on EPERM.
    for name in ("socket", "socketpair"):
        steps += [
            (_EQUAL, 0, 4, _require_number(name, machine)),
            (_LOAD, 0, 0, _FIRST_ARGUMENT),
            (_EQUAL, 0, 1, _AF_UNIX),
            allow,
            refuse(errno.EOPNOTSUPP),
        ]
    for name in DENIED:
        denied = number(name, machine)
        if denied is not None:
            steps += [(_EQUAL, 0, 1, denied), refuse(errno.EPERM)]
    return [*steps, allow]


def install() -> None:
    """Apply the filter to this process and all that it will start. Needs no_new_privileges first."""
    steps = program(platform.machine())
    code = ctypes.create_string_buffer(b"".join(struct.pack("=HBBI", *step) for step in steps))
    header = struct.pack("@HP", len(steps), ctypes.addressof(code))
    check_result(libc.prctl(_PR_SET_SECCOMP, _MODE_FILTER, header, 0, 0), "prctl(SECCOMP)")


def _require_number(name: str, machine: str) -> int:
    found = number(name, machine)
    if found is None:
        raise LookupError(name)
    return found
