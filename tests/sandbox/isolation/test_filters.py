"""Test the seccomp filters by running their programs over calls, as Linux does."""

from __future__ import annotations

import errno
import importlib.util
import os
import platform
import re
import socket
import struct
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

import rlm.sandbox.isolation
from rlm.sandbox.isolation import syscalls
from rlm.sandbox.isolation.layers import seccomp

ROOT = Path(__file__).parents[3]
PROGRAMS = Path(rlm.sandbox.isolation.__file__).parent / "filters"


def _load() -> ModuleType:
    """Load the generator, which is on no import path."""
    spec = importlib.util.spec_from_file_location("seccomp_filters", ROOT / "tools" / "seccomp_filters.py")
    assert spec is not None
    assert spec.loader is not None
    module = sys.modules["seccomp_filters"] = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


filters = _load()
try:
    filters.number("read", "x86_64")
except OSError:
    pytest.skip("libseccomp is not installed", allow_module_level=True)
MACHINES, NEWEST, number = filters.MACHINES, filters.NEWEST, filters.number
ALLOW, KILL, ERRNO = 0x7FFF0000, 0x80000000, 0x00050000
HEADERS = Path("/usr/include/x86_64-linux-gnu/asm/unistd_64.h")


def judge(program: bytes, machine: str, call: int | str, *arguments: int, architecture: int = 0) -> int:
    """Return what the filter answers. Every instruction is checked: no jump leads past the end."""
    found = number(call, machine) if isinstance(call, str) else call
    assert found is not None
    values = [argument & (2**64 - 1) for argument in (*arguments, *[0] * (6 - len(arguments)))]
    data = struct.pack("=IIQ6Q", found & 0xFFFFFFFF, architecture or MACHINES[machine], 0, *values)
    steps = list(struct.iter_unpack("=HBBI", program))
    accumulator = at = 0
    while True:
        code, if_true, if_false, constant = steps[at]
        at += 1
        match code:
            case 0x20:
                (accumulator,) = struct.unpack_from("=I", data, constant)
            case 0x54:
                accumulator &= constant
            case 0x15:
                at += if_true if accumulator == constant else if_false
            case 0x35:
                at += if_true if accumulator >= constant else if_false
            case 0x06:
                return constant
            case _:
                raise AssertionError(f"unknown instruction {code:#x}")


def refused(program: bytes, machine: str, call: int | str, *arguments: int) -> int:
    """Return the error with which a call fails, or 0 if it is allowed."""
    answer = judge(program, machine, call, *arguments)
    assert answer == ALLOW or answer & 0xFFFF0000 == ERRNO, hex(answer)
    return 0 if answer == ALLOW else answer & 0xFFFF


def kernel_program(machine: str) -> bytes:
    return (PROGRAMS / f"kernel.{machine}.bpf").read_bytes()


def test_what_is_shipped_is_what_the_lists_say() -> None:
    """After a change of a list: `python tools/seccomp_filters.py`."""
    made = {
        f"{name}.{machine}.bpf": filters.compile_allowlist(rules, machine)
        for name, rules in filters.PROGRAMS.items()
        for machine in MACHINES
    }
    assert {path.name: path.read_bytes() for path in PROGRAMS.iterdir()} == made


def test_our_own_calls_have_their_numbers() -> None:
    for machine, numbers in syscalls._NUMBERS.items():
        for name, found in {**numbers, **syscalls._EVERYWHERE}.items():
            assert found == number(name, machine)


@pytest.mark.parametrize("machine", MACHINES)
def test_only_listed_calls_are_allowed(machine) -> None:
    """All others fail with EPERM, calls that are newer than the list with ENOSYS."""
    program = kernel_program(machine)
    assert not set(UNLISTED) & set(filters.KERNEL_RULES)
    listed = {number(name, machine) for name in filters.KERNEL_RULES}
    for call in {*range(NEWEST + 1)} - listed:
        assert refused(program, machine, call) == errno.EPERM, call
    for unknown in (NEWEST + 1, NEWEST + 1_000, 2**30 - 1):
        assert refused(program, machine, unknown) == errno.ENOSYS
    for name in ("read", "futex", "mmap", "openat", "execve", "exit_group"):
        assert refused(program, machine, name) == 0


@pytest.mark.parametrize("machine", MACHINES)
def test_another_architecture_ends_the_process(machine) -> None:
    """Its numbers mean other calls. So do those of x32."""
    program = kernel_program(machine)
    for architecture in (0x40000003, 0x40000028, *MACHINES.values()):
        if architecture != MACHINES[machine]:
            assert judge(program, machine, "read", architecture=architecture) == KILL
    if machine == "x86_64":
        assert judge(program, machine, 0x40000000) == KILL
        assert judge(program, machine, 0x40000029, 2, 1) == KILL


BY_ARGUMENT = [
    ("fcntl", (3, 0), (3, 1), (3, 3), (3, 4), (3, 1030)),
    ("ioctl", (0, 0x541B), (0, 0x5401), (0, 0x5451)),
    ("prctl", (15,), (16,), (1, 9)),
    ("clone", (0x1200011,), (0x3D0F00,), (0x4111,)),
    ("prlimit64", (0, 7)),
    ("socketpair", (1, 1)),
    ("openat", (-100, 0, 0o101, 0o644)),
    ("fchmod", (3, 0o755)),
]
REFUSED_BY_ARGUMENT = [
    ("fcntl", *((3, command) for command in (5, 6, 7, 8, 10, 15, 36, 37, 38, 1024, 1026, 1031, 1033))),
    ("ioctl", (0, 0x5412), (0, 0x541C), (0, 0x40049409), (0, 0x5452)),
    ("prctl", (4,), (22,), (28,), (35,), (36,), (0x59616D61,)),
    ("clone", (0x10000000 | 17,), (0x20000,), (0x40000000,), (0x02000000,), (0x8000 | 17,)),
    ("prlimit64", (1, 7), (2**32 + 1, 7)),
    ("socket", (1, 1), (1, 2), (2, 1), (16, 3), (40, 1), (2**32 + 2, 1)),
    ("openat", (-100, 0, 0o101, 0o4755)),
    ("fchmod", (3, 0o2755)),
    ("fchmodat2", (-100, 0, 0o6755)),
    ("seccomp", (1, 1), (1, 8), (1, 9), (2, 1), (3, 0)),
]
UNLISTED = (
    *(
        "accept4",
        "chroot",
        "file_setattr",
        "flock",
        "inotify_add_watch",
        "io_uring_setup",
        "linkat",
        "listen",
    ),
    *("listmount", "mbind", "memfd_create", "mknodat", "move_pages", "open_tree_attr", "sched_setscheduler"),
    *("seccomp", "statmount"),
)


@pytest.mark.parametrize("machine", MACHINES)
def test_calls_are_judged_by_their_arguments(machine) -> None:
    program = kernel_program(machine)
    for name, *calls in BY_ARGUMENT:
        for call in calls:
            assert refused(program, machine, name, *call) == 0, (name, call)
    for name, *calls in REFUSED_BY_ARGUMENT:
        for call in calls or [()]:
            assert refused(program, machine, name, *call), (name, call)


@pytest.mark.parametrize("machine", MACHINES)
def test_a_kernel_makes_no_socket_but_pairs(machine) -> None:
    """Its own ones are inherited. One end of a pair of datagram sockets could send to any address."""
    program = kernel_program(machine)
    assert refused(program, machine, "bind") == errno.EACCES
    for name in ("sendmsg", "futex"):
        assert refused(program, machine, name) == 0
    assert refused(program, machine, "connect") == errno.EOPNOTSUPP
    assert refused(program, machine, "socket", socket.AF_UNIX, 1) == errno.EOPNOTSUPP
    assert refused(program, machine, "socketpair", 1, socket.SOCK_STREAM | 0o2000000) == 0
    assert refused(program, machine, "socketpair", 1, socket.SOCK_DGRAM | 0o4000) == errno.EOPNOTSUPP
    assert refused(program, machine, "socketpair", 2, socket.SOCK_STREAM) == errno.EOPNOTSUPP


def test_every_condition_of_a_rule_must_hold() -> None:
    rule = filters.Rule((filters.Condition(0, (1, 2, 3)), filters.Condition(1, (0,), 0xF0)), 71)
    program = filters.compile_allowlist({"read": rule}, "x86_64")
    for first in (1, 2, 3):
        assert refused(program, "x86_64", "read", first, 0x0F) == 0
        assert refused(program, "x86_64", "read", first, 0x10) == 71
    assert refused(program, "x86_64", "read", 4, 0) == 71
    assert refused(program, "x86_64", "write") == errno.EPERM


def test_a_name_that_no_machine_has_is_a_mistake() -> None:
    with pytest.raises(KeyError):
        filters.compile_allowlist({"raed": filters.ANY}, "x86_64")


def test_a_machine_without_filters_is_refused(monkeypatch) -> None:
    monkeypatch.setattr("platform.machine", lambda: "riscv64")
    with pytest.raises(OSError, match="riscv64"):
        seccomp.program.__wrapped__("kernel")


@pytest.mark.skipif(not HEADERS.exists(), reason="Linux's headers are not installed")
def test_the_numbers_agree_with_the_machines_headers() -> None:
    defined = dict(re.findall(r"#define __NR_(\w+) (\d+)", HEADERS.read_text()))
    listed = {name for rules in filters.PROGRAMS.values() for name in rules}
    compared = {name: number(name, "x86_64") for name in listed if name in defined}
    assert len(compared) > 150
    assert compared == {name: int(defined[name]) for name in compared}


_INSTALLED = """
import ctypes, os, sys, threading
from rlm.sandbox.isolation.layers import privileges, seccomp
go = threading.Event()
def other():
    go.wait()
    try: os.chroot("/")
    except OSError as error: print("thread", error.errno)
thread = threading.Thread(target=other); thread.start()
privileges.no_new_privileges()
seccomp.install(seccomp.program("kernel"))
go.set(); thread.join()
libc = ctypes.CDLL(None, use_errno=True)
print("newer", libc.syscall(4_000), ctypes.get_errno(), flush=True)
libc.syscall(0x40000027)
print("x32 lives")
"""


@pytest.mark.skipif(
    not sys.platform.startswith("linux") or platform.machine() != "x86_64", reason="calls by number"
)
def test_an_installed_filter_holds_for_every_thread() -> None:
    done = subprocess.run(
        [sys.executable, "-c", _INSTALLED],
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
        cwd=ROOT,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )
    assert done.stdout == f"thread {errno.EPERM}\nnewer -1 {errno.ENOSYS}\n", done.stderr
    assert done.returncode == -31  # SIGSYS
