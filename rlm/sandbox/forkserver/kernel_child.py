"""Turns a forked supervisor into a confined kernel, without starting another program."""

from __future__ import annotations

import gc
import importlib
import os
import random
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rlm.sandbox.in_kernel import launch
from rlm.sandbox.isolation import launcher
from rlm.sandbox.isolation.policy import Confinement
from rlm.sandbox.isolation.report import LayerReport
from rlm.sandbox.launch.provisioner import Launched, run_kernel

__all__ = ["fork_kernel", "preload"]

_PACKAGE_FOLDER = Path(launch.__file__).resolve().parent
_LOADED_LATE = (
    "IPython.core.completerlib",
    "IPython.core.debugger",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "faulthandler",
    "tornado.platform.asyncio",
    "unicodedata",
)
"""Modules that ipykernel and IPython would import only while a kernel starts."""


_ours: list[str] = []
"""The modules that a kernel forgets, listed before the fork. Searching all modules after it would touch, and
so copy, the memory page of each name."""


def preload() -> None:
    """Import what every kernel needs, our own part by file path, and create the shell."""
    package = launch.load_package(_PACKAGE_FOLDER)
    for path in sorted([*_PACKAGE_FOLDER.rglob("*.py"), *(_PACKAGE_FOLDER.parent / "text").glob("*.py")]):
        if path.stem not in ("__init__", "launch"):
            inside = path.relative_to(_PACKAGE_FOLDER.parent).with_suffix("")
            importlib.import_module(".".join((launch.KERNEL_SIDE, *inside.parts)))
    for name in _LOADED_LATE:
        importlib.import_module(name)
    importlib.import_module(f"{package}.kernel").prepare()
    _ours[:] = launch.our_modules()
    # Each kernel sees different folders.
    sys.path_importer_cache.clear()


def fork_kernel(confinement: Confinement, config: Mapping[str, Any], package: str, log: Path) -> Launched:
    """Fork a launcher with its kernel. This process must have one thread.

    Their stderr goes to `log` until cells run. The result's `report` tells how each layer went.
    """
    if confinement.launcher == "bubblewrap":
        # bubblewrap is a program: it can only execute another program.
        return run_kernel(confinement, config, package, log)
    reading, writing = os.pipe()
    cells, cells_theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    confinement = replace(confinement, cells_fd=cells_theirs.fileno())
    pid = os.fork()
    if pid == 0:
        _become_launcher(confinement, config, package, log, writing)
    os.close(writing)
    cells_theirs.close()
    return Launched(pid, reading, cells)


def _become_launcher(
    confinement: Confinement, config: Mapping[str, Any], package: str, log: Path, report_fd: int
) -> NoReturn:
    status: object = 1
    try:
        os.setsid()
        _redirect(log)
        launcher.close_other_fds({report_fd, *confinement.watcher_fds})
        report = LayerReport(report_fd)
        status = launcher.launch(
            confinement, report, lambda: _become_kernel(confinement, config, package, report)
        )
    except SystemExit as ended:
        status = ended.code
    except BaseException:
        # A forked launcher must end here and never return into the supervisor's frames.
        traceback.print_exc()
    finally:
        os._exit(status if isinstance(status, int) else 1)


def _become_kernel(
    confinement: Confinement, config: Mapping[str, Any], package: str, report: LayerReport
) -> NoReturn:
    """Run the kernel. Raises OSError if the layers hide the files that it needs."""
    # A program would fail to start if its files were hidden. A fork would only notice at its next import.
    Path(os.__file__).open("rb").close()
    status = 1
    try:
        _hidden = _start_afresh(confinement.environment, package)
        report.close()
        launch.run_kernel(config, f"{launch.KERNEL_SIDE}.in_kernel")
        status = 0
    except BaseException:
        # A forked kernel must end here and never return into the launcher's frames.
        traceback.print_exc()
    finally:
        os._exit(status)


def _redirect(log: Path) -> None:
    nothing = os.open(os.devnull, os.O_RDWR)
    complaints = os.open(log, os.O_WRONLY | os.O_CREAT | os.O_APPEND, 0o600)
    for target, source in ((0, nothing), (1, nothing), (2, complaints)):
        os.dup2(source, target)


def _start_afresh(environment: Mapping[str, str], package: str) -> list[ModuleType]:
    """Reset random numbers, signals, environment, arguments and modules to those of a new program.

    Returns the removed modules: the caller keeps a reference, because freeing them costs a fork more.
    """
    random.seed()
    for number in signal.valid_signals() - {signal.SIGKILL, signal.SIGSTOP}:
        # Python's own settings stay: a closed pipe or a file too large raises instead of killing.
        if number not in (signal.SIGPIPE, signal.SIGXFSZ):
            signal.signal(number, signal.SIG_DFL)
    signal.signal(signal.SIGINT, signal.default_int_handler)
    signal.pthread_sigmask(signal.SIG_SETMASK, ())
    os.environ.clear()
    os.environ.update(environment)
    tempfile.tempdir = None
    sys.argv = [f"{package}/launch.py"]
    for name, module in list(sys.modules.items()):
        if name.startswith(f"{launch.KERNEL_SIDE}.") and hasattr(module, "__path__"):
            module.__path__ = [str(Path(package).parent.joinpath(*name.split(".")[1:]))]
    sys.path_importer_cache.clear()
    gc.enable()
    return launch.hide_our_packages(_ours)
