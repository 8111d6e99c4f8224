"""Errors of the sandbox.

A failing *cell* is data (`CellResult.status`); a failing *kernel* is one of these:

    SandboxError
    ├── SandboxRefused      this machine supports no isolation level that the caller accepts
    ├── KernelStartError    the kernel did not start, or not in time
    ├── KernelDied          the kernel ended unexpectedly
    ├── ProtocolError       a peer sent bytes that the wire format does not allow
    ├── ContextFileError    a context folder cannot be written or is damaged
    └── SourceChanged       a file that is read in place changed
"""

from __future__ import annotations

__all__ = [
    "ContextFileError",
    "KernelDied",
    "KernelStartError",
    "ProtocolError",
    "SandboxError",
    "SandboxRefused",
    "SourceChanged",
]


class SandboxError(Exception):
    """Base class of the errors of this package."""


class SandboxRefused(SandboxError):
    """This machine supports no isolation level that the caller accepts."""


class KernelStartError(SandboxError):
    """The kernel did not start. The message holds what its launcher reported."""


class KernelDied(SandboxError):
    """The kernel ended, during a cell or between cells."""


class ProtocolError(SandboxError):
    """A peer sent bytes that the wire format does not allow. It is not trusted any further."""


class ContextFileError(SandboxError):
    """A context folder cannot be written (disk full, no permission) or is damaged."""


class SourceChanged(SandboxError):
    """A file that is read in place changed. `path` names it."""

    def __init__(self, path: str, change: str) -> None:
        super().__init__(
            f"{path} {change} after it was read. Restore it and resume the run, or ask again. If a program "
            "keeps writing to it, name a copy of it"
        )
        self.path = path
