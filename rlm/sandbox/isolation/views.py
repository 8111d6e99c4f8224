"""What a kernel and a worker see of this machine: paths, environment and resource limits."""

from __future__ import annotations

import os
import sys
import sysconfig
from collections.abc import Iterator
from pathlib import Path

from rlm.sandbox.in_kernel import wire
from rlm.sandbox.isolation.policy import Candidate, Confinement, Role
from rlm.sandbox.types import KernelLimits

__all__ = [
    "boot",
    "clean_environment",
    "confinement",
    "interpreter_paths",
    "kernel_package",
]

_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg", "share")
PACKAGE = Path(__file__).resolve().parents[2]
_SITES = ("site-packages", "dist-packages")


def confinement(way: Candidate, folder: Path, limits: KernelLimits, role: Role = "kernel") -> Confinement:
    """Return the confinement of a kernel or a worker. Makes its folders in `folder`, which is empty."""
    for name in ("root", "scratch"):
        (folder / name).mkdir(0o700)
    scratch = Path("/scratch") if way.level >= 2 else folder / "scratch"
    read_only = {path: path for path in interpreter_paths()}
    if role == "kernel":
        package = Path(kernel_package(way.level))
        read_only[str(_package_folder())] = str(package)
        read_only[str(_package_folder().parent / "text")] = str(package.parent / "text")
    else:
        for code in map(str, code_folders()):
            if not any(code == path or code.startswith(f"{path}/") for path in (*read_only, "/usr")):
                read_only[code] = code
    return Confinement(
        level=way.level,
        launcher=way.launcher,
        mount_point=str(folder / "root"),
        read_only=read_only,
        hidden=_installed_packages() if role == "kernel" else (),
        scratch=str(scratch),
        scratch_mb=limits.scratch_mb,
        memory_mb=limits.memory_mb,
        processes=limits.processes,
        open_files=limits.open_files,
        environment=clean_environment(scratch),
        role=role,
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


def code_folders() -> tuple[Path, ...]:
    """Return the folders that hold what a worker imports besides the standard library.

    Never the folder of the script that was started: it may be a home, or hold a project's keys.
    """
    sites = [Path(path) for path in sys.path if Path(path).name in _SITES and Path(path).is_dir()]
    return (PACKAGE, *dict.fromkeys(sites))


def boot(module: str) -> list[str]:
    """Return an interpreter's arguments to run `main` of a module of the sandbox with the arguments after."""
    folders = ":".join(str(folder) for folder in code_folders() if folder != PACKAGE)
    return [str(PACKAGE / "sandbox" / "launch" / "boot.py"), folders, module]


def interpreter_paths() -> list[str]:
    """Return the folders and files of the interpreter that are not in every root anyway.

    Only the interpreter's parts of an installation folder are listed, because it may also be a project or a
    home folder.
    """
    executable = Path(sys.executable)
    homes = {Path(sys.prefix), Path(sys.base_prefix), executable.resolve().parent.parent}
    found = {str(path) for home in homes for path in _parts(home) if not path.is_relative_to("/usr")}
    # A path inside another one is covered by it.
    return sorted(one for one in found if not any(one.startswith(f"{other}/") for other in found))


def _parts(home: Path) -> Iterator[Path]:
    # Not Path.home(), which fails for a user without a passwd entry. Here such a user keeps "~".
    if not Path(os.path.expanduser("~")).is_relative_to(home):  # noqa: PTH111
        yield from (home / part for part in _PARTS if (home / part).exists())
        return
    # In a home folder, bin and lib hold more than the interpreter, and share holds the user's data.
    names = {link.name for link in _links(Path(sys.executable))}
    yield from (home / "bin" / name for name in sorted(names) if (home / "bin" / name).exists())
    for library in ("lib", "lib64"):
        version = f"python{sys.version_info.major}.{sys.version_info.minor}"
        yield from (path for path in (home / library).glob("*") if path.name == version or ".so" in path.name)
    if (home / "pyvenv.cfg").exists():
        yield home / "pyvenv.cfg"


def _links(path: Path) -> Iterator[Path]:
    """Yield `path` and each target of its chain of links: `python`, `python3`, `python3.13`."""
    for _ in range(40):  # as many as the kernel follows
        yield path
        if not path.is_symlink():
            return
        path = path.parent / path.readlink()
