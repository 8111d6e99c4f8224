"""The last walls of a job's own process, before it runs anything."""

from __future__ import annotations

import resource
from collections.abc import Callable
from dataclasses import dataclass

from rlm.sandbox.isolation.filters import allowlist
from rlm.sandbox.isolation.filters.worker import Calls, job_program
from rlm.sandbox.isolation.layers import capabilities, landlock
from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["JobLimits", "confine_job", "hide_from_tracing"]

_PR_SET_DUMPABLE = 4
_LAST_WORDS_SECONDS = 5


@dataclass(frozen=True, slots=True)
class JobLimits:
    """The system calls of a job, and its seconds of CPU (None: no limit).

    After them it gets SIGXCPU, which ends it unless it has a handler, and 5 s later SIGKILL.
    """

    calls: Calls = "parser"
    cpu_seconds: int | None = None


def hide_from_tracing() -> None:
    """Let no process of the same user trace this one or read its memory. It also leaves no core dump."""
    check_result(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(DUMPABLE)")


def confine_job(limits: JobLimits) -> dict[str, str]:
    """Confine this process for good. Return the walls that failed, with the system's reasons."""
    failed: dict[str, str] = {}

    def apply(wall: str, mechanism: Callable[[], object]) -> None:
        try:
            mechanism()
        except (OSError, ValueError, LookupError) as error:
            failed[wall] = str(error)

    apply("rlimits", lambda: _limit(limits))
    apply("dumpable", hide_from_tracing)
    apply("no_new_privileges", capabilities.no_new_privileges)
    # Not a single path: what the job needs is open or imported.
    apply("landlock", lambda: landlock.restrict(read=(), write=(), sockets=()))
    apply("seccomp", lambda: allowlist.install(job_program(limits.calls)))
    return failed


def _limit(limits: JobLimits) -> None:
    for kind, value in (
        # Linux counts threads as processes, and those of all brokers together.
        (resource.RLIMIT_NPROC, 0 if limits.calls == "parser" else None),
        (resource.RLIMIT_FSIZE, 0),
        (resource.RLIMIT_CORE, 0),
    ):
        if value is not None:
            _, hard = resource.getrlimit(kind)
            held = value if hard == resource.RLIM_INFINITY else min(value, hard)
            resource.setrlimit(kind, (held, held))
    if limits.cpu_seconds is not None:
        resource.setrlimit(
            resource.RLIMIT_CPU, (limits.cpu_seconds, limits.cpu_seconds + _LAST_WORDS_SECONDS)
        )
