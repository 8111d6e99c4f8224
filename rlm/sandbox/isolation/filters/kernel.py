"""The system calls of a kernel: what CPython, ipykernel, numpy, pandas and a shell's programs really make.

`tests/sandbox/trace_syscalls.py` prints what representative cells call. To those calls this table adds the
older and newer forms of the same calls, which other C libraries and versions use instead.
"""

from __future__ import annotations

import errno
import socket
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

__all__ = ["KERNEL_RULES", "kernel_program"]

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


def kernel_program(machine: str | None = None) -> bytes:
    """Return the filter of a kernel."""
    return compile_allowlist(KERNEL_RULES, machine)
