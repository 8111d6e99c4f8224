"""Writes the seccomp programs that rlm ships: `python tools/seccomp_filters.py`. A test compares them.

The lists of the system calls that a kernel, a worker and a worker's job may make are here. A call that is not
on a list fails. A call of another architecture's interface ends the process. A filter sees a call's number
and arguments, but nothing that an argument points to. libseccomp (libseccomp.so.2) gives the numbers.
"""

from __future__ import annotations

import ctypes
import errno
import socket
import struct
from collections.abc import Mapping
from dataclasses import dataclass
from functools import cache
from pathlib import Path

FOLDER = Path(__file__).resolve().parents[1] / "rlm" / "sandbox" / "isolation" / "filters"
MACHINES = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
"""The machines and Linux's number of their architecture, which is libseccomp's, too."""
X32 = 0x4000_0000
"""Set in the numbers of x86_64's other interface, which no filter here allows."""
NEWEST = 469
"""The last call of Linux 6.17, on both machines."""
_NEWER = {"fchmodat2": 452, "mseal": 462}
"""Calls that libseccomp 2.5 does not know. They have one number on all machines."""

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT = 0, 4, 16, 8
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_ALL_BITS = 0xFFFF_FFFF

Instruction = tuple[int, int, int, int]
"""Classic BPF (`linux/filter.h`): code, jump if true, jump if false, constant."""


@dataclass(frozen=True, slots=True)
class Condition:
    """Holds if `argument & mask` is one of `values`. Arguments count from 0.

    Only the low 32 bits are compared: Linux itself ignores the others of the arguments judged here.
    """

    argument: int
    values: tuple[int, ...]
    mask: int = _ALL_BITS


@dataclass(frozen=True, slots=True)
class Rule:
    """A call is allowed if every condition holds; otherwise it fails with `error`."""

    conditions: tuple[Condition, ...] = ()
    error: int = errno.EPERM


ANY = Rule()
"""Allowed with any arguments."""


def one_of(argument: int, *values: int, error: int = errno.EPERM) -> Rule:
    """Allow a call whose argument is one of `values`."""
    return Rule((Condition(argument, values),), error)


def without_bits(argument: int, bits: int, error: int = errno.EPERM) -> Rule:
    """Allow a call whose argument has none of these bits."""
    return Rule((Condition(argument, (0,), bits),), error)


def refuse(error: int) -> Rule:
    """Refuse a call with `error`, where EPERM would mislead the C library."""
    return Rule((Condition(0, ()),), error)


# A kernel: what CPython, ipykernel, numpy, pandas and a shell's programs really make.
# `trace_syscalls.py` prints what representative cells call. To those calls this table adds the
# older and newer forms of the same calls, which other C libraries and versions use instead.

_FILES = (
    "access", "chdir", "close", "close_range", "copy_file_range", "dup", "dup2", "dup3", "faccessat",
    "faccessat2", "fadvise64", "fallocate", "fchdir", "fdatasync", "fstat", "fstatfs", "fsync", "ftruncate",
    "futimesat", "getcwd", "getdents", "getdents64", "lseek", "lstat", "mkdir", "mkdirat", "newfstatat",
    "pread64", "preadv", "preadv2", "pwrite64", "pwritev", "pwritev2", "read", "readlink", "readlinkat",
    "readv", "rename", "renameat", "renameat2", "rmdir", "sendfile", "stat", "statfs", "statx", "symlink",
    "symlinkat", "truncate", "umask", "unlink", "unlinkat", "utime", "utimensat", "utimes", "write", "writev",
)  # fmt: skip
"""What a path may be is for the mounts and Landlock to decide."""

_MEMORY = (
    "brk", "get_mempolicy", "madvise", "membarrier", "mprotect", "mremap", "msync", "munmap",
)  # fmt: skip

_PROCESSES = (
    "execve", "exit", "exit_group", "fork", "futex", "getcpu", "getegid", "geteuid", "getgid", "getgroups",
    "getpgid", "getpgrp", "getpid", "getppid", "getpriority", "getresgid", "getresuid", "getrlimit",
    "getrusage", "getsid", "gettid", "getuid", "kill", "pidfd_open", "pidfd_send_signal", "restart_syscall",
    "rseq", "sched_get_priority_max", "sched_get_priority_min", "sched_getaffinity", "sched_getattr",
    "sched_getparam", "sched_getscheduler", "sched_yield", "set_robust_list", "set_tid_address", "setpgid",
    "setrlimit", "setsid", "sysinfo", "tgkill", "times", "tkill", "uname", "vfork", "wait4", "waitid",
)  # fmt: skip

_SIGNALS_AND_TIME = (
    "alarm", "clock_getres", "clock_gettime", "clock_nanosleep", "getitimer", "getrandom", "gettimeofday",
    "nanosleep", "pause", "rt_sigaction", "rt_sigpending", "rt_sigprocmask", "rt_sigreturn",
    "rt_sigsuspend", "rt_sigtimedwait", "setitimer", "sigaltstack", "time",
)  # fmt: skip

_WAITING_AND_SOCKETS = (
    "epoll_create", "epoll_create1", "epoll_ctl", "epoll_pwait",
    "epoll_pwait2", "epoll_wait", "eventfd", "eventfd2", "getpeername", "getsockname", "getsockopt",
    "pipe", "pipe2", "poll", "ppoll", "pselect6", "recvfrom", "recvmsg", "select", "sendmsg",
    "sendto", "setsockopt", "shutdown",
)  # fmt: skip

_SETID_BITS = 0o6000
_MAP_SHARED, _MAP_ANONYMOUS = 0x01, 0x20
_NEW_NAMESPACES = 0x7E02_0080
_CLONE_PTRACE, _CLONE_PARENT, _CLONE_UNTRACED, _CLONE_IO = 0x2000, 0x8000, 0x0080_0000, 0x8000_0000
_DUPFD, _GETFD, _SETFD, _GETFL, _SETFL, _DUPFD_CLOEXEC, _GETPIPE_SZ = 0, 1, 2, 3, 4, 1030, 1032
_FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX = 0x541B, 0x5421, 0x5450, 0x5451
_TCGETS, _TCGETS2, _TIOCGPGRP, _TIOCGWINSZ = 0x5401, 0x802C_542A, 0x540F, 0x5413
_PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_GET_DUMPABLE, _PR_SET_NAME, _PR_GET_NAME = 1, 2, 3, 15, 16
_PR_CAPBSET_READ, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS, _PR_SET_VMA = 23, 38, 39, 0x5356_4D41
_ARCH_SET_FS, _ARCH_GET_FS = 0x1002, 0x1003
_TYPE_OF_SOCKET = 0xF

_BY_ARGUMENT: Mapping[str, Rule] = {
    # No setuid or setgid file, on whatever disk. The C library passes mode 0 if no file is created.
    "open": without_bits(2, _SETID_BITS),
    "openat": without_bits(3, _SETID_BITS),
    "creat": without_bits(1, _SETID_BITS),
    "chmod": without_bits(1, _SETID_BITS),
    "fchmod": without_bits(1, _SETID_BITS),
    "fchmodat": without_bits(2, _SETID_BITS),
    "fchmodat2": without_bits(2, _SETID_BITS),
    # No shared memory without a file: RLIMIT_DATA counts private memory only. /dev/shm has a size.
    "mmap": Rule(
        (Condition(3, (0, _MAP_SHARED, _MAP_ANONYMOUS), _MAP_SHARED | _MAP_ANONYMOUS),), errno.ENOMEM
    ),
    # No locks and leases, which other kernels that see the same file would notice; no signals about changes
    # of a folder (F_NOTIFY); no owner that gets signals.
    "fcntl": one_of(1, _DUPFD, _GETFD, _SETFD, _GETFL, _SETFL, _DUPFD_CLOEXEC, _GETPIPE_SZ),
    # ENOTTY is what a device answers to a request that it does not know.
    "ioctl": one_of(
        1, _FIONREAD, _FIONBIO, _FIONCLEX, _FIOCLEX, _TCGETS, _TCGETS2, _TIOCGPGRP, _TIOCGWINSZ,
        error=errno.ENOTTY,
    ),
    "prctl": one_of(
        0, _PR_SET_NAME, _PR_GET_NAME, _PR_SET_VMA, _PR_SET_PDEATHSIG, _PR_GET_PDEATHSIG, _PR_GET_DUMPABLE,
        _PR_CAPBSET_READ, _PR_SET_NO_NEW_PRIVS, _PR_GET_NO_NEW_PRIVS,
    ),
    "arch_prctl": one_of(0, _ARCH_SET_FS, _ARCH_GET_FS, error=errno.EINVAL),
    "clone": without_bits(
        0, _NEW_NAMESPACES | _CLONE_PTRACE | _CLONE_PARENT | _CLONE_UNTRACED | _CLONE_IO
    ),
    # A process may lower its own limits, but not those of another process.
    "prlimit64": one_of(0, 0),
    # asyncio and subprocesses need pairs, but one end of a pair of datagram sockets can send to any address.
    "socketpair": Rule(
        (
            Condition(0, (socket.AF_UNIX,)),
            Condition(1, (socket.SOCK_STREAM, socket.SOCK_SEQPACKET), _TYPE_OF_SOCKET),
        ),
        errno.EOPNOTSUPP,
    ),
}  # fmt: skip

_REFUSED_OTHERWISE: Mapping[str, int] = {
    # A filter cannot read flags behind a pointer. The C library falls back to clone and open.
    "clone3": errno.ENOSYS,
    "openat2": errno.ENOSYS,
    "futex_waitv": errno.ENOSYS,
    "mseal": errno.ENOSYS,
    # What programs answer by going on without a network. EPERM makes libzmq abort.
    "socket": errno.EOPNOTSUPP,
    "connect": errno.EOPNOTSUPP,
    "bind": errno.EACCES,
    # Programs that copy files carry on where a file system has no attributes.
    **dict.fromkeys(
        (
            "fgetxattr", "flistxattr", "fremovexattr", "fsetxattr", "getxattr", "lgetxattr", "listxattr",
            "llistxattr", "lremovexattr", "lsetxattr", "removexattr", "setxattr",
        ),
        errno.EOPNOTSUPP,
    ),
}  # fmt: skip

KERNEL_RULES: Mapping[str, Rule] = {
    **dict.fromkeys((*_FILES, *_MEMORY, *_PROCESSES, *_SIGNALS_AND_TIME, *_WAITING_AND_SOCKETS), ANY),
    **_BY_ARGUMENT,
    **{name: refuse(error) for name, error in _REFUSED_OTHERWISE.items()},
}
"""What a kernel may call from its launch on. Its sockets are inherited, and it can make pairs only."""

# A worker forks one process for each job. It reads no untrusted byte, so its own list is wide. A job's list
# holds what parsing needs once everything is imported and open.

_WRITE, _EXECUTE = 2, 4
_OPEN_TO_WRITE = 0o1 | 0o2 | 0o100 | 0o1000 | 0o2000 | 0o20000000
"""WRONLY, RDWR, CREAT, TRUNC, APPEND and TMPFILE."""
_PR_SET_DUMPABLE = 4

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

JOB_RULES: Mapping[str, Rule] = {
    **dict.fromkeys(_COMPUTE, ANY),
    "mmap": _NOT_EXECUTABLE,
    "mprotect": _NOT_EXECUTABLE,
    "fcntl": one_of(1, _GETFD, _SETFD, _GETFL, _SETFL),
    "ioctl": one_of(1, _FIONREAD, _FIONBIO, _FIOCLEX, error=errno.ENOTTY),
    "fstat": ANY,
}  # fmt: skip

_WORKER_FILES = (
    "access", "chdir", "dup", "dup2", "dup3", "faccessat", "faccessat2", "fadvise64", "getcwd", "getdents64",
    "lstat", "newfstatat", "readlink", "readlinkat", "stat", "statfs", "statx",
)  # fmt: skip

_WORKER_PROCESSES = (
    "arch_prctl", "execve", "fchdir", "fork", "getpeername", "getpgrp", "getpriority", "getresgid",
    "getresuid", "getrlimit", "getsockname", "getsockopt", "kill", "landlock_create_ruleset",
    "landlock_restrict_self", "pipe", "pipe2", "prlimit64", "rseq", "rt_sigpending",
    "sched_get_priority_max", "sched_get_priority_min", "select", "set_robust_list", "set_tid_address",
    "setrlimit", "setsockopt", "sysinfo", "tgkill", "umask", "uname", "vfork", "wait4", "waitid",
)  # fmt: skip

WORKER_RULES: Mapping[str, Rule] = {
    **JOB_RULES,
    **dict.fromkeys((*_WORKER_FILES, *_WORKER_PROCESSES), ANY),
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

PROGRAMS = {"kernel": KERNEL_RULES, "worker": WORKER_RULES, "job": JOB_RULES}


def compile_allowlist(rules: Mapping[str, Rule], machine: str) -> bytes:
    """Return the program of a filter that allows what `rules` allow, by name of the call.

    Any other call fails with EPERM. Calls newer than our table fail with ENOSYS, as on the Linux that lacks
    them: the C library then falls back to an older call. A name that `machine` lacks is left out.
    Raises KeyError for an unknown name.
    """
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, MACHINES[machine]),
        (_RETURN, 0, 0, _KILL_PROCESS),
        (_LOAD, 0, 0, _NUMBER),
    ]
    if machine == "x86_64":
        steps += [(_AT_LEAST, 0, 1, X32), (_RETURN, 0, 0, _KILL_PROCESS)]
    # Linux caches the calls that are allowed whatever their arguments, and does not run the program for them.
    # So only the position of the others matters.
    for name in sorted(rules, key=lambda name: not rules[name].conditions):
        found = number(name, machine)
        if found is not None:
            judged = _judge(rules[name])
            steps += [(_EQUAL, 0, len(judged), found), *judged]
    steps += [
        (_AT_LEAST, 0, 1, NEWEST + 1),
        (_RETURN, 0, 0, _ERRNO | errno.ENOSYS),
        (_RETURN, 0, 0, _ERRNO | errno.EPERM),
    ]
    return b"".join(struct.pack("=HBBI", *step) for step in steps)


@cache
def number(name: str, machine: str) -> int | None:
    """Return the number of a call, or None if `machine` has no such call. Raises KeyError for no call."""
    library = ctypes.CDLL("libseccomp.so.2")
    found: int = library.seccomp_syscall_resolve_name_arch(ctypes.c_uint32(MACHINES[machine]), name.encode())
    if found == -1:
        return _NEWER[name]
    # Other negative numbers stand for calls of other machines.
    return found if found >= 0 else None


def _judge(rule: Rule) -> list[Instruction]:
    """Return the instructions that decide a call by its arguments. They always return."""
    refused: Instruction = (_RETURN, 0, 0, _ERRNO | rule.error)
    steps: list[Instruction] = []
    for condition in rule.conditions:
        if not condition.values:
            return [refused]
        steps.append((_LOAD, 0, 0, _FIRST_ARGUMENT + _ARGUMENT * condition.argument))
        if condition.mask != _ALL_BITS:
            steps.append((_AND, 0, 0, condition.mask))
        for position, value in enumerate(condition.values):
            # On a match, jump over the other values and the refusal.
            steps.append((_EQUAL, len(condition.values) - position, 0, value))
        steps.append(refused)
    return [*steps, (_RETURN, 0, 0, _ALLOW)]


def main() -> None:
    """Write every program for every machine."""
    for name, rules in PROGRAMS.items():
        for machine in MACHINES:
            (FOLDER / f"{name}.{machine}.bpf").write_bytes(compile_allowlist(rules, machine))


if __name__ == "__main__":
    main()
