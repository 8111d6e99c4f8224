"""Resource limits of every process of a kernel."""

from __future__ import annotations

import resource

__all__ = ["address_bytes", "apply"]

_MB = 2**20


def apply(*, memory_mb: int, body_bytes: int, file_mb: int, processes: int | None, open_files: int) -> None:
    """Limit memory (DATA), addresses (AS), file size, open files and processes; disable core dumps.

    The address limit makes shared mappings count too. `processes` None sets no process limit; Linux does
    not apply it to root.
    """
    for kind, value in (
        (resource.RLIMIT_DATA, memory_mb * _MB),
        (resource.RLIMIT_AS, address_bytes(memory_mb=memory_mb, body_bytes=body_bytes)),
        (resource.RLIMIT_FSIZE, file_mb * _MB),
        (resource.RLIMIT_NOFILE, open_files),
        (resource.RLIMIT_CORE, 0),
    ):
        _lower(kind, value)
    if processes is not None:
        _lower(resource.RLIMIT_NPROC, processes)


def address_bytes(*, memory_mb: int, body_bytes: int) -> int:
    """Return a kernel's address limit: its memory, the mapped body, and 1 GB for code and stacks."""
    return memory_mb * _MB + body_bytes + 1024 * _MB


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
