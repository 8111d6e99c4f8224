"""What can go wrong with a sandbox.

A failing *cell* is data (`CellResult.status`); a failing *kernel* is one of these:

    SandboxError
    ├── SandboxRefused      no isolation level that the caller accepts is to be had here
    ├── KernelStartError    the kernel did not come up in time, or not at all
    ├── KernelDied          the kernel (or its broker) went away
    ├── ProtocolError       a peer sent bytes that the wire format does not allow
    └── ContextFileError    a context folder can't be written or is damaged
"""

from __future__ import annotations

__all__ = [
    "ContextFileError",
    "KernelDied",
    "KernelStartError",
    "ProtocolError",
    "SandboxError",
    "SandboxRefused",
]


class SandboxError(Exception):
    """Base of everything this package raises on purpose."""


class SandboxRefused(SandboxError):
    """No isolation level that the caller accepts is to be had on this machine."""


class KernelStartError(SandboxError):
    """The kernel did not come up: the message says what its launcher reported."""


class KernelDied(SandboxError):
    """The kernel or its broker went away outside a cell, or did not survive one."""


class ProtocolError(SandboxError):
    """A peer sent bytes that the wire format does not allow; it is not trusted any further."""


class ContextFileError(SandboxError):
    """A context folder can't be written (disk full, no permission) or is damaged."""
