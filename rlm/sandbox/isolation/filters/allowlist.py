"""Builds and installs a seccomp filter from a list of the system calls that a process may make.

A call that is not on the list fails. A call of another architecture's interface ends the process. A filter
sees a call's number and arguments, but nothing that an argument points to.
"""

from __future__ import annotations

import ctypes
import errno
import platform
import struct
from collections.abc import Mapping
from dataclasses import dataclass

from rlm.sandbox.isolation.syscalls import MACHINES, NEWEST, X32, Unsupported, check_result, libc, number

__all__ = ["ANY", "Condition", "Rule", "compile_allowlist", "install", "one_of", "refuse", "without_bits"]

_LOAD, _EQUAL, _AT_LEAST, _AND, _RETURN = 0x20, 0x15, 0x35, 0x54, 0x06
_NUMBER, _ARCHITECTURE, _FIRST_ARGUMENT, _ARGUMENT = 0, 4, 16, 8
_ALLOW, _KILL_PROCESS, _ERRNO = 0x7FFF_0000, 0x8000_0000, 0x0005_0000
_AUDIT_ARCH = {"x86_64": 0xC000_003E, "aarch64": 0xC000_00B7}
_SET_MODE_FILTER, _EVERY_THREAD = 1, 1
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


def compile_allowlist(rules: Mapping[str, Rule], machine: str | None = None) -> bytes:
    """Return the program of a filter that allows what `rules` allow, by name of the call.

    Any other call fails with EPERM. Calls newer than our table fail with ENOSYS, as on the Linux that lacks
    them: the C library then falls back to an older call. A name that `machine` (default: this one) lacks is
    left out. Raises Unsupported for a machine without a table, KeyError for an unknown name.
    """
    machine = machine or platform.machine()
    if machine not in MACHINES:
        raise Unsupported(errno.ENOSYS, f"no table of system calls for {machine}")
    steps: list[Instruction] = [
        (_LOAD, 0, 0, _ARCHITECTURE),
        (_EQUAL, 1, 0, _AUDIT_ARCH[machine]),
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


def install(program: bytes) -> None:
    """Apply a program to every thread of this process and to all that it will start, for good.

    Needs `capabilities.no_new_privileges` first. Filters add up: each one must allow a call. Raises OSError.
    """
    code = ctypes.create_string_buffer(program, len(program))
    header = struct.pack("@HP", len(program) // struct.calcsize("=HBBI"), ctypes.addressof(code))
    seccomp = number("seccomp")
    assert seccomp is not None, "every machine in the table has seccomp"
    arguments = map(ctypes.c_long, (seccomp, _SET_MODE_FILTER, _EVERY_THREAD))
    result: int = check_result(libc.syscall(*arguments, header), "seccomp")
    if result:
        raise OSError(errno.ESRCH, f"seccomp: thread {result} cannot be filtered")


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
