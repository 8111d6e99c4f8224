"""Jobs of a worker for tests. `attack` does what native code that was taken over would try."""

from __future__ import annotations

import ctypes
import json
import mmap
import os
import resource
import signal
import socket
import threading
import time
from collections.abc import Callable
from typing import Any

from rlm.sandbox.launch import jobs

LIBC = ctypes.CDLL(None, use_errno=True)
NUMBERS = {"ptrace": 101, "process_vm_readv": 310, "memfd_create": 319, "unshare": 272, "mount": 165}
NUMBERS |= {"setns": 308, "io_uring_setup": 425, "pidfd_open": 434, "vfork": 58, "open_by_handle_at": 304}


def prepare(argument: str) -> None:
    """Import what the attacks use, so that none fails for lack of a module."""
    json.dumps({})
    if argument == "without a filter":
        jobs.seccomp.program = lambda role: b"no filter"


def read_all(channel: socket.socket) -> bytes:
    data = b""
    while piece := channel.recv(1 << 16):
        data += piece
    return data


def echo(argument: str, channel: socket.socket, files: list[int]) -> None:
    channel.sendall(argument.encode() + read_all(channel) + b"".join(os.read(file, 100) for file in files))


def spin(argument: str, channel: socket.socket, files: list[int]) -> None:
    while True:
        pass


def sleep(argument: str, channel: socket.socket, files: list[int]) -> None:
    time.sleep(60)


def crash(argument: str, channel: socket.socket, files: list[int]) -> None:
    ctypes.string_at(0)


def flood(argument: str, channel: socket.socket, files: list[int]) -> None:
    while True:
        channel.sendall(bytes(1 << 16))


def grow(argument: str, channel: socket.socket, files: list[int]) -> None:
    bytearray(1 << 30)


def identity(argument: str, channel: socket.socket, files: list[int]) -> None:
    """Send this process's id, as it sees it, and where the C library and a stack variable are."""
    channel.sendall(f"{os.getpid()} {ctypes.cast(LIBC.read, ctypes.c_void_p).value}".encode())


def raw(name: str, *arguments: Any) -> None:
    if LIBC.syscall(ctypes.c_long(NUMBERS[name]), *arguments) < 0:
        raise OSError(ctypes.get_errno(), name)


def opened(path: str) -> None:
    with open(path, "rb") as file:
        file.read(1)


def connect(family: int, kind: int, address: Any) -> None:
    with socket.socket(family, kind) as sock:
        sock.settimeout(1)
        sock.connect(address)


def attacks(target: dict[str, Any]) -> dict[str, Callable[[], object]]:
    victim = target["victim"]
    return {
        "connect to a Unix socket": lambda: connect(socket.AF_UNIX, socket.SOCK_STREAM, target["server"]),
        "connect to an abstract socket": lambda: connect(
            socket.AF_UNIX, socket.SOCK_STREAM, "\0" + target["abstract"]
        ),
        "connect by TCP": lambda: connect(socket.AF_INET, socket.SOCK_STREAM, ("127.0.0.1", target["port"])),
        "a datagram socket": lambda: socket.socket(socket.AF_INET, socket.SOCK_DGRAM).close(),
        "a netlink socket": lambda: socket.socket(socket.AF_NETLINK, socket.SOCK_RAW).close(),
        "a socket pair": lambda: socket.socketpair(socket.AF_UNIX, socket.SOCK_DGRAM),
        "chmod": lambda: os.chmod(victim, 0o666),
        "chown": lambda: os.chown(victim, 0, 0),
        "utime": lambda: os.utime(victim, (1, 1)),
        "truncate": lambda: os.truncate(victim, 0),
        "rename": lambda: os.rename(victim, victim + "2"),
        "unlink": lambda: os.unlink(victim),
        "make a folder": lambda: os.mkdir(victim + "3"),
        "link": lambda: os.symlink(victim, victim + "4"),
        "look at a file": lambda: os.stat(victim),
        "read a file": lambda: opened(victim),
        "read .env": lambda: opened(target["env"]),
        "read the script's folder": lambda: os.listdir(target["script"]),
        "read the password file": lambda: opened("/etc/passwd"),
        "open its own library": lambda: opened(os.__file__),
        "list the root": lambda: os.listdir("/"),
        "list processes": lambda: os.listdir("/proc"),
        "the driver's environment": lambda: opened(f"/proc/{target['driver']}/environ"),
        "the worker's memory": lambda: opened(f"/proc/{os.getppid()}/mem"),
        "exec": lambda: os.execv("/bin/true", ["true"]),
        "fork": os.fork,
        "vfork": lambda: raw("vfork"),
        "spawn": lambda: os.posix_spawn("/bin/true", ["true"], {}),
        "a thread": lambda: threading.Thread(target=time.sleep, args=(0,)).start(),
        "signal the worker": lambda: os.kill(os.getppid(), signal.SIGTERM),
        "signal the driver": lambda: os.kill(target["driver"], 0),
        "signal everything": lambda: os.kill(-1, signal.SIGCONT),
        "trace the worker": lambda: raw("ptrace", 16, os.getppid(), 0, 0),
        "read the worker's memory": lambda: raw("process_vm_readv", os.getppid(), 0, 0, 0, 0, 0),
        "hold a process": lambda: raw("pidfd_open", os.getppid(), 0),
        "a file in memory": lambda: raw("memfd_create", b"x", 0),
        "namespaces": lambda: raw("unshare", 0x1000_0000),
        "enter namespaces": lambda: raw("setns", 0, 0),
        "mount": lambda: raw("mount", b"/", b"/", None, 4096, None),
        "io_uring": lambda: raw("io_uring_setup", 1, ctypes.create_string_buffer(200)),
        "code of its own": lambda: mmap.mmap(
            -1, 4096, prot=mmap.PROT_READ | mmap.PROT_WRITE | mmap.PROT_EXEC
        ),
        "raise a limit": lambda: resource.setrlimit(resource.RLIMIT_NPROC, (9, 9)),
        "limit another process": lambda: resource.prlimit(os.getppid(), resource.RLIMIT_CPU, (1, 1)),
        "pin another process": lambda: os.sched_setaffinity(os.getppid(), {0}),
        "priority of another process": lambda: os.setpriority(os.PRIO_PROCESS, os.getppid(), 19),
        "change the folder": lambda: os.chdir("/"),
        "become root": lambda: os.setresuid(0, 0, 0),
        "leave the session": os.setsid,
        "be traced": lambda: prctl(4, 1),
        "take a capability": lambda: prctl(47, 2, 1, 0, 0),
    }


def prctl(*arguments: int) -> None:
    if LIBC.prctl(*arguments) != 0:
        raise OSError(ctypes.get_errno(), "prctl")


def attack(argument: str, channel: socket.socket, files: list[int]) -> None:
    """Send the names of the attacks that got through, and how many were tried."""
    target = json.loads(read_all(channel))
    through, tried = [], attacks(target)
    for name, act in tried.items():
        pid = os.getpid()
        try:
            act()
        except (OSError, RuntimeError, ValueError):
            continue
        if os.getpid() != pid:
            time.sleep(60)  # the child of a fork: it must not be there to be found
        through.append(name)
    channel.sendall(json.dumps({"through": through, "tried": len(tried)}).encode())
