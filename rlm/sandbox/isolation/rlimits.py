"""The limits every process of a kernel carries."""

from __future__ import annotations

import resource

__all__ = ["address_bytes", "apply"]

_MB = 2**20


def apply(*, memory_mb: int, body_bytes: int, file_mb: int, processes: int | None, open_files: int) -> None:
    """Memory of its own (DATA) and addresses (AS: that, the mapped body and a gigabyte, so that shared
    mappings count too), file size, open files, processes, no core dumps. `processes` None
    leaves that one alone; it never binds root."""
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
    """The addresses a kernel may take: its memory, the body it maps, and a gigabyte of code and stacks."""
    return memory_mb * _MB + body_bytes + 1024 * _MB


def _lower(kind: int, value: int) -> None:
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))
