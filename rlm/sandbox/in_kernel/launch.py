"""Starts the kernel. Run by file path: `python -s -P launch.py CONFIG`. CONFIG is JSON:

helper_fd: the inherited end of the helper channel.
cells_fd: the inherited end of the channel of cells.
key: the key that signs Jupyter's messages.

A forkserver has loaded the package before, and calls `run_kernel` in the forked process instead.
"""

from __future__ import annotations

import importlib
import importlib.abc
import importlib.util
import json
import os
import socket
import sys
from collections.abc import Iterable, Mapping, Sequence
from importlib.machinery import ModuleSpec
from pathlib import Path
from types import ModuleType
from typing import Any

HIDDEN = frozenset({"rlm"})
KERNEL_SIDE = "kernel_side"
"""The name above `in_kernel` and `text` in a kernel."""


class HiddenPackages(importlib.abc.MetaPathFinder):
    """Hides our own packages from cells.

    Without a private root the file system shows them. This keeps honest cells from importing them by
    mistake; it is not a security boundary.
    """

    def find_spec(
        self, fullname: str, path: Sequence[str] | None = None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        if fullname.partition(".")[0] in HIDDEN:
            raise ModuleNotFoundError(f"No module named {fullname!r}", name=fullname)
        return None


def load_package(folder: Path) -> str:
    """Make this folder and `text` beside it importable without `rlm`, wherever they are. Return the package's
    name."""
    parent = sys.modules[KERNEL_SIDE] = ModuleType(KERNEL_SIDE)
    parent.__path__ = []  # the folder above may not be listed
    for inside in (folder.parent / "text", folder):
        name = f"{KERNEL_SIDE}.{inside.name}"
        spec = importlib.util.spec_from_file_location(
            name, inside / "__init__.py", submodule_search_locations=[str(inside)]
        )
        if spec is None or spec.loader is None:
            raise ImportError(f"no package at {inside}")
        module = sys.modules[name] = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    return name


def our_modules() -> list[str]:
    """Return the names of our own modules that are loaded."""
    return [name for name in sys.modules if name.partition(".")[0] in HIDDEN]


def hide_our_packages(loaded: Iterable[str]) -> list[ModuleType]:
    """Remove these modules and block further imports of our own packages.

    Returns the modules: a forked process keeps them, because freeing them costs more.
    """
    hidden = [sys.modules.pop(name) for name in loaded if name in sys.modules]
    sys.meta_path.insert(0, HiddenPackages())
    return hidden


def run_kernel(config: Mapping[str, Any], package: str) -> None:
    """Serve cells with the loaded `package` until the watcher or the driver goes away."""
    kernel = importlib.import_module(f"{package}.kernel")
    helper, cells = (socket.socket(fileno=config[name]) for name in ("helper_fd", "cells_fd"))
    for channel in (helper, cells):
        channel.setblocking(True)
        os.set_inheritable(channel.fileno(), False)
    kernel.run(helper, cells, config["key"].encode())


def main(arguments: Sequence[str]) -> None:
    """Run the command line."""
    hide_our_packages(our_modules())
    run_kernel(json.loads(arguments[0]), load_package(Path(__file__).resolve().parent))


if __name__ == "__main__":
    main(sys.argv[1:])
