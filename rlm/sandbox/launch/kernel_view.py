"""What a kernel is shown of this machine: which paths, which environment, and what it may take."""

from __future__ import annotations

import sysconfig
from pathlib import Path

from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.interpreter import interpreter_paths
from rlm.sandbox.isolation.policy import Confinement
from rlm.sandbox.isolation.probe import Candidate
from rlm.sandbox.types import KernelLimits

__all__ = ["clean_environment", "confinement", "kernel_package"]

_ANY_BODY = 2**40
"""A kernel may be started before its context is known. It lowers its own limit on addresses when it is given
one, which is before the first cell."""


def confinement(way: Candidate, folder: Path, limits: KernelLimits) -> Confinement:
    """How a kernel in `folder` (with `run`, `scratch` and `root` in it) is held."""
    inside = way.level >= 2
    package = str(_package_folder())
    read_only = {path: path for path in interpreter_paths()}
    read_only[package] = kernel_package(way.level)
    scratch = Path("/scratch") if inside else folder / "scratch"
    run = str(folder / "run")
    return Confinement(
        level=way.level,
        launcher=way.launcher,
        mount_point=str(folder / "root"),
        read_only=read_only,
        writable={run: run},
        hidden=_installed_packages(),
        scratch=str(scratch),
        scratch_mb=limits.scratch_mb,
        memory_mb=limits.memory_mb,
        body_bytes=_ANY_BODY,
        processes=limits.processes,
        open_files=limits.open_files,
        environment=clean_environment(scratch),
    )


def kernel_package(level: int) -> str:
    """Where a kernel at `level` finds the code it runs from."""
    return "/kernel" if level >= 2 else str(_package_folder())


def clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the driver's own environment: that is where keys live."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "IPYTHONDIR": str(home / ".ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / ".jupyter"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        # The same cells over the same text order their sets alike: a run can be gone through again.
        "PYTHONHASHSEED": "0",
        # Each arena reserves 64 MB of addresses, which RLIMIT_AS would count.
        "MALLOC_ARENA_MAX": "2",
    }


def _package_folder() -> Path:
    return Path(wire.__file__).resolve().parent


def _installed_packages() -> tuple[str, ...]:
    """Our own packages where a wheel puts them: a kernel is shown empty folders instead."""
    site = Path(sysconfig.get_path("purelib"))
    return (str(site / "rlm"),) if (site / "rlm").is_dir() else ()
