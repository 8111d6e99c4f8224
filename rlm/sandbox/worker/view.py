"""What a worker sees of this machine: the interpreter, this package and the installed packages."""

from __future__ import annotations

import sys
from pathlib import Path

from rlm.sandbox.isolation.interpreter import interpreter_paths
from rlm.sandbox.isolation.policy import Confinement
from rlm.sandbox.isolation.probe import Candidate

__all__ = ["PACKAGE", "code_folders", "import_path", "worker_confinement"]

PACKAGE = Path(__file__).resolve().parents[2]
_SITES = ("site-packages", "dist-packages")
_OPEN_FILES = 4096
_PROCESSES = 8192
"""A limit on a worker's jobs and their threads. A job itself may start no process."""


def code_folders() -> tuple[Path, ...]:
    """Return the folders that hold what a worker imports besides the standard library.

    Never the folder of the script that was started: it may be a home, or hold a project's keys.
    """
    sites = [Path(path) for path in sys.path if Path(path).name in _SITES and Path(path).is_dir()]
    return (PACKAGE, *dict.fromkeys(sites))


def import_path() -> list[str]:
    """Return what a worker adds to its `sys.path`. This package is imported by its folder."""
    return [str(folder) for folder in code_folders() if folder != PACKAGE]


def worker_confinement(way: Candidate, folder: Path, memory_mb: int, control: int) -> Confinement:
    """Return the confinement of a worker in `folder`, which holds `root` and `scratch`."""
    inside = way.level >= 2
    scratch = "/scratch" if inside else str(folder / "scratch")
    read_only = {path: path for path in interpreter_paths()}
    for code in map(str, code_folders()):
        if not any(code == path or code.startswith(f"{path}/") for path in (*read_only, "/usr")):
            read_only[code] = code
    return Confinement(
        level=way.level,
        launcher=way.launcher,
        mount_point=str(folder / "root"),
        read_only=read_only,
        hidden=(),
        scratch=scratch,
        scratch_mb=1,
        memory_mb=memory_mb,
        body_bytes=0,
        processes=_PROCESSES,
        open_files=_OPEN_FILES,
        # Nothing of the driver's own variables, which may hold keys.
        environment={
            "HOME": scratch,
            "LC_ALL": "C.UTF-8",
            "MALLOC_ARENA_MAX": "2",
        },
        keep_fds=(control,),
        role="worker",
    )
