"""The forkserver's own loop."""

from __future__ import annotations

import gc
import os
import select
import signal
import socket
import sys
import traceback
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from rlm.sandbox.folders.private_folder import sweep_folders
from rlm.sandbox.forkserver.kernel_child import fork_kernel, preload
from rlm.sandbox.forkserver.words import SUPERVISOR
from rlm.sandbox.isolation.launcher import close_other_fds
from rlm.sandbox.supervisor import service

__all__ = ["serve"]

_DESCRIPTORS = 3
_DYING_SECONDS = 10.0


def serve(requests: socket.socket, tops: Iterable[Path]) -> NoReturn:
    """Fork a supervisor for each request, until the driver ends. Never returns.

    If the driver was killed, its private folders in `tops` are removed: they hold documents.
    """
    driver = os.pidfd_open(os.getppid())
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    # Supervisors are not reaped here: the driver holds a pidfd of each.
    signal.signal(signal.SIGCHLD, signal.SIG_IGN)
    preload()
    if len(list(Path("/proc/self/task").iterdir())) > 1:
        sys.exit("an imported library started a thread: a fork would take a broken copy of its locks")
    gc.collect()
    # Objects made so far stay in every child. If the collector skips them, their pages stay shared.
    gc.freeze()
    while True:
        data, descriptors, _, _ = socket.recv_fds(requests, 1, _DESCRIPTORS)
        if not data:
            _after_the_driver(driver, tops)
        if data != SUPERVISOR:
            os._exit(0)
        if os.fork() == 0:
            _become_supervisor(descriptors)
        for descriptor in descriptors:
            os.close(descriptor)


def _after_the_driver(driver: int, tops: Iterable[Path]) -> NoReturn:
    try:
        # The kernel closes a process's sockets a moment before the process ends.
        select.select([driver], [], [], _DYING_SECONDS)
        for top in tops:
            sweep_folders(top)
    finally:
        os._exit(0)


def _become_supervisor(descriptors: list[int]) -> NoReturn:
    status = 1
    try:
        os.setsid()
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        channel, helper, log = descriptors
        for standard in (1, 2):
            os.dup2(log, standard)
        close_other_fds({channel, helper})
        link = socket.socket(fileno=channel)
        pidfd = os.pidfd_open(os.getpid())
        socket.send_fds(link, [b"\0"], [pidfd])
        os.close(pidfd)
        service.run(link, helper, fork_kernel)
        status = 0
    except BaseException:
        # A forked supervisor must end here and never return into the forkserver's frames.
        traceback.print_exc()
    finally:
        os._exit(status)
