"""The forkserver: forks watchers, with their kernels and confined programs.

Its arguments are SOCKET_FD DRIVER WAY TEMP: SOCKET_FD leads to the
driver, DRIVER is a pidfd of it, and its private folders are in TEMP. With the WAY `fork`, it imports all that
a kernel needs when it is told to warm up, and each kernel is forked. With `program`, each kernel is started
as a program: slower, but it works where an imported library starts a thread.

It runs trusted code only, in a clean environment, without threads until a kernel has its own process.
"""

from __future__ import annotations

import gc
import importlib
import os
import random
import select
import signal
import socket
import sys
import tempfile
import traceback
from collections.abc import Mapping, Sequence
from contextlib import suppress
from pathlib import Path
from types import ModuleType
from typing import Any, NoReturn

from rlm.sandbox.folders import sweep_folders
from rlm.sandbox.in_kernel import launch
from rlm.sandbox.isolation import orphans
from rlm.sandbox.isolation.launcher import close_other_fds
from rlm.sandbox.isolation.policy import Confinement, LayerReport
from rlm.sandbox.launch import WARM, WATCH
from rlm.sandbox.launch.watcher import BecomeKernel, watch

__all__: list[str] = []

_DESCRIPTORS = 3
_DYING_SECONDS = 10.0
_PACKAGE_FOLDER = Path(launch.__file__).resolve().parent
_LOADED_LATE = (
    "rlm.sandbox.launch.kernel_messages",
    "IPython.core.completerlib",
    "IPython.core.logger",
    "IPython.core.oinspect",
    "faulthandler",
    "unicodedata",
)
"""Modules that a watcher, ipykernel and IPython would import only while a kernel starts."""

_ours: list[str] = []
"""The modules that a kernel forgets, listed before the fork. Searching all modules after it would touch, and
so copy, the memory page of each name."""


def main(arguments: Sequence[str]) -> NoReturn:
    """Fork a watcher for each request, until the driver ends.

    If the driver was killed, its private folders are removed: they hold documents.
    """
    (requests_fd, driver, way, top), command = arguments, sys.orig_argv[: -len(arguments)]
    requests = socket.socket(fileno=int(requests_fd))
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    become_kernel: BecomeKernel | None = None
    # Without namespaces, what a kernel has started outlives a watcher that is killed. It becomes our child.
    orphans.adopt()
    watchers: set[int] = set()
    woken, waking = os.pipe2(os.O_NONBLOCK | os.O_CLOEXEC)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    signal.set_wakeup_fd(waking, warn_on_full_buffer=False)
    while True:
        ready, _, _ = select.select([requests.fileno(), woken], [], [])
        if woken in ready:
            os.read(woken, 4096)
            _reap(watchers)
        if requests.fileno() not in ready:
            continue
        data, descriptors, _, _ = socket.recv_fds(requests, 1, _DESCRIPTORS)
        if not data:
            _after_the_driver(int(driver), Path(top))
        if data == WARM:
            if way == "fork" and become_kernel is None:
                _preload()
                if len(list(Path("/proc/self/task").iterdir())) > 1:
                    # A fork would take a broken copy of its locks. What was requested since stays queued.
                    requests.set_inheritable(True)
                    os.set_inheritable(int(driver), True)
                    os.execv(sys.executable, [*command, requests_fd, driver, "program", top])  # noqa: S606
                become_kernel = _become_kernel
            continue
        if data != WATCH:
            os._exit(0)
        pid = os.fork()
        if pid == 0:
            _become_watcher(descriptors, become_kernel)
        watchers.add(pid)
        for descriptor in descriptors:
            os.close(descriptor)


def _preload() -> None:
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
    gc.collect()
    # Objects made so far stay in every child. If the collector skips them, their pages stay shared.
    gc.freeze()


def _reap(watchers: set[int]) -> None:
    """Reap the watchers that have ended, and end what a killed one has left."""
    is_any_killed = False
    with suppress(ChildProcessError):
        while ended := os.waitid(os.P_ALL, 0, os.WEXITED | os.WNOHANG):
            is_any_killed |= ended.si_pid in watchers and ended.si_code != os.CLD_EXITED
            watchers.discard(ended.si_pid)
    if is_any_killed:
        orphans.end_all(besides=watchers)


def _after_the_driver(driver: int, top: Path) -> NoReturn:
    try:
        # Linux closes a process's sockets a moment before the process ends.
        select.select([driver], [], [], _DYING_SECONDS)
        sweep_folders(top)
    finally:
        os._exit(0)


def _become_watcher(descriptors: list[int], become_kernel: BecomeKernel | None) -> NoReturn:
    status = 1
    try:
        os.setsid()
        signal.set_wakeup_fd(-1)
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        channel, helper, log = descriptors
        for standard in (1, 2):
            os.dup2(log, standard)
        close_other_fds({channel, helper})
        link = socket.socket(fileno=channel)
        link.setblocking(True)
        pidfd = os.pidfd_open(os.getpid())
        socket.send_fds(link, [b"\0"], [pidfd])
        os.close(pidfd)
        watch(link, helper, become_kernel)
        status = 0
    except BaseException:
        # A forked watcher must end here and never return into the forkserver's frames.
        traceback.print_exc()
    finally:
        os._exit(status)


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
