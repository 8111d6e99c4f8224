"""The last walls of a job's own process, before it runs anything."""

from __future__ import annotations

import resource
from collections.abc import Callable

from rlm.sandbox.isolation.filters import allowlist
from rlm.sandbox.isolation.filters.worker import job_program
from rlm.sandbox.isolation.layers import capabilities, landlock
from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["confine_job", "hide_from_tracing"]

_PR_SET_DUMPABLE = 4
_LAST_WORDS_SECONDS = 5


def hide_from_tracing() -> None:
    """Let no process of the same user trace this one or read its memory. It also leaves no core dump."""
    check_result(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(DUMPABLE)")


def confine_job(cpu_seconds: int | None) -> dict[str, str]:
    """Confine this process for good. Return the walls that failed, with the system's reasons.

    After `cpu_seconds` of CPU (None: no limit) it gets SIGXCPU, which ends it unless it has a handler, and
    SIGKILL 5 s later.
    """
    failed: dict[str, str] = {}

    def apply(wall: str, mechanism: Callable[[], object]) -> None:
        try:
            mechanism()
        except (OSError, ValueError, LookupError) as error:
            failed[wall] = str(error)

    apply("rlimits", lambda: _limit(cpu_seconds))
    apply("dumpable", hide_from_tracing)
    apply("no_new_privileges", capabilities.no_new_privileges)
    # Not a single path: what the job needs is open or imported.
    apply("landlock", lambda: landlock.restrict(read=(), write=()))
    apply("seccomp", lambda: allowlist.install(job_program()))
    return failed


def _limit(cpu_seconds: int | None) -> None:
    for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))
    if cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + _LAST_WORDS_SECONDS))
