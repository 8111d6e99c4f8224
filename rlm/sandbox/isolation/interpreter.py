"""Finds the folders of this interpreter and its packages, which a kernel must be able to read."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

__all__ = ["interpreter_paths"]

_PARTS = ("bin", "lib", "lib64", "pyvenv.cfg", "share")


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
