"""The system calls of a worker process and of its jobs (`rlm.sandbox.worker`).

A worker forks one process for each job. It reads no untrusted byte, so its own list is wide. A job's list
holds what parsing needs once everything is imported and open.
"""

from __future__ import annotations

import errno
from collections.abc import Mapping

from rlm.sandbox.isolation.filters.allowlist import (
    ANY,
    Condition,
    Rule,
    compile_allowlist,
    one_of,
    refuse,
    without_bits,
)

__all__ = ["job_program", "worker_program"]

_WRITE, _EXECUTE = 2, 4
_OPEN_TO_WRITE = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""WRONLY, RDWR, CREAT, TRUNC, APPEND and TMPFILE."""
_NEW_NAMESPACES = 0x7E02_0080
_GETFD, _SETFD, _GETFL, _SETFL = 1, 2, 3, 4
_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS = 0x541B, 0x5421, 0x5450, 0x5451, 0x5401
_PR_SET_DUMPABLE, _PR_SET_NAME, _PR_GET_NAME, _PR_SET_NO_NEW_PRIVS, _PR_SET_VMA = 4, 15, 16, 38, 0x5356_4D41

_SET_MODE_FILTER, _EVERY_THREAD = 1, 1

_COMPUTE = (
    "brk", "clock_getres", "clock_gettime", "clock_nanosleep", "close", "exit", "exit_group", "futex",
    "getcpu", "getegid", "geteuid", "getgid", "getpid", "getppid", "getrandom", "getrusage", "gettid",
    "gettimeofday", "getuid", "lseek", "madvise", "membarrier", "mremap", "munmap", "nanosleep", "poll",
    "ppoll", "pread64", "read", "readv", "recvfrom", "recvmsg", "restart_syscall", "rt_sigaction",
    "rt_sigprocmask", "rt_sigreturn", "sched_getaffinity", "sched_yield", "sendmsg", "sendto", "shutdown",
    "sigaltstack", "time", "times", "write", "writev",
)  # fmt: skip
"""What computes, and uses what is open already."""

# A parser that is taken over may not load code of its own.
_NOT_EXECUTABLE = without_bits(2, _EXECUTE)

_JOB: Mapping[str, Rule] = {
    **dict.fromkeys(_COMPUTE, ANY),
    "mmap": _NOT_EXECUTABLE,
    "mprotect": _NOT_EXECUTABLE,
    "fcntl": one_of(1, _GETFD, _SETFD, _GETFL, _SETFL),
    "ioctl": one_of(1, _FIONREAD, _FIONBIO, _FIOCLEX, error=errno.ENOTTY),
    "fstat": ANY,
}  # fmt: skip

_FILES = (
    "access", "chdir", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "getcwd", "getdents64",
    "lstat", "newfstatat", "readlink", "readlinkat", "stat", "statfs", "statx",
)  # fmt: skip

_PROCESSES = (
    "arch_prctl", "execve", "fchdir", "fork", "getpeername", "getpgrp", "getpriority", "getresgid",
    "getresuid", "getrlimit", "getsockname", "getsockopt", "kill", "landlock_create_ruleset",
    "landlock_restrict_self", "pipe", "pipe2", "prlimit64", "rseq", "rt_sigpending",
    "sched_get_priority_max", "sched_get_priority_min", "select", "set_robust_list", "set_tid_address",
    "setrlimit", "setsockopt", "sysinfo", "tgkill", "umask", "uname", "vfork", "wait4", "waitid",
)  # fmt: skip

_WORKER: Mapping[str, Rule] = {
    **_JOB,
    **dict.fromkeys((*_FILES, *_PROCESSES), ANY),
    # What programs answer by going on without a network. libzmq aborts the process on EPERM.
    **dict.fromkeys(("connect", "socket", "socketpair"), refuse(errno.EOPNOTSUPP)),
    # For the filters of jobs. No listener, which could answer calls.
    "seccomp": Rule((Condition(0, (_SET_MODE_FILTER,)), Condition(1, (_EVERY_THREAD,)))),
    # The C library falls back to clone: no filter can read the flags of clone3.
    "clone3": refuse(errno.ENOSYS),
    "mmap": ANY,
    "mprotect": ANY,
    "open": without_bits(1, _OPEN_TO_WRITE),
    "openat": without_bits(2, _OPEN_TO_WRITE),
    "openat2": refuse(errno.ENOSYS),
    "clone": without_bits(0, _NEW_NAMESPACES),
    "fcntl": ANY,
    "ioctl": one_of(1, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS, error=errno.ENOTTY),
    "prctl": one_of(
        0, _PR_SET_DUMPABLE, _PR_SET_NAME, _PR_GET_NAME, _PR_SET_NO_NEW_PRIVS, _PR_SET_VMA
    ),
}  # fmt: skip


def worker_program(machine: str | None = None) -> bytes:
    """Return the filter of a worker, which also bounds its jobs."""
    return compile_allowlist(_WORKER, machine)


def job_program(machine: str | None = None) -> bytes:
    """Return the filter of a job."""
    return compile_allowlist(_JOB, machine)
