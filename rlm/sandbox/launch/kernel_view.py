"""What a kernel sees of this machine: paths, environment and resource limits."""

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
"""A kernel may start before its context is known. It lowers its own address limit when it gets its context,
before the first cell."""


def confinement(way: Candidate, folder: Path, limits: KernelLimits) -> Confinement:
    """Return the confinement of a kernel in `folder`, which holds `scratch` and `root`."""
    inside = way.level >= 2
    package = kernel_package(way.level)
    read_only = {path: path for path in interpreter_paths()}
    read_only[str(_package_folder())] = package
    read_only[str(_package_folder().parent / "text")] = str(Path(package).parent / "text")
    scratch = Path("/scratch") if inside else folder / "scratch"
    return Confinement(
        level=way.level,
        launcher=way.launcher,
        mount_point=str(folder / "root"),
        read_only=read_only,
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
    """Return the folder in which a kernel at `level` finds its code."""
    return "/kernel/in_kernel" if level >= 2 else str(_package_folder())


def clean_environment(home: Path) -> dict[str, str]:
    """Return an environment without the driver's own variables, which may hold API keys."""
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
        # Sets keep the same order from run to run: a run can be replayed.
        "PYTHONHASHSEED": "0",
        # Each arena reserves 64 MB of addresses, which RLIMIT_AS would count.
        "MALLOC_ARENA_MAX": "2",
    }


def _package_folder() -> Path:
    return Path(wire.__file__).resolve().parent


def _installed_packages() -> tuple[str, ...]:
    """Return where a wheel installs our packages. A kernel sees empty folders there."""
    site = Path(sysconfig.get_path("purelib"))
    return (str(site / "rlm"),) if (site / "rlm").is_dir() else ()
