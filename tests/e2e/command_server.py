"""Run commands of rlm in forks of a process that has imported it.

A fork is a process of its own: it has its own folder, environment, streams and exit code. It only saves the
import, which takes longer than most commands. The server reads requests, one at a time, from the socket whose
descriptor is its first argument: a JSON object, with the three streams. It answers with the process id, then
with the exit code.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import pkgutil
import socket
import sys
from typing import NoReturn

PACKAGES = ("rlm.cli", "rlm.tasks", "rlm.runs", "rlm.driver", "rlm.children", "rlm.documents", "rlm.journal")
_MAX_REQUEST = 1_000_000


def serve(control: socket.socket) -> None:
    """Answer requests until the other end closes the socket."""
    while True:
        data, descriptors, _flags, _address = socket.recv_fds(control, _MAX_REQUEST, 3)
        if not data:
            return
        request = json.loads(data)
        process = os.fork()
        if process == 0:
            control.close()
            _run(request["arguments"], request["folder"], request["environment"], descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
        control.send(str(process).encode())
        _process, status = os.waitpid(process, 0)
        control.send(str(os.waitstatus_to_exitcode(status)).encode())


def _run(arguments: list[str], folder: str, environment: dict[str, str], streams: list[int]) -> NoReturn:
    """Become the command. SystemExit ends this process as it ends one of its own, exit handlers included."""
    for number, stream in enumerate(streams):
        os.dup2(stream, number)
        os.close(stream)
    os.chdir(folder)
    os.environ.clear()
    os.environ.update(environment)
    sys.argv = ["rlm", *arguments]
    # Also under their second names, so that they are not collected when a command replaces the first.
    sys.stdin = sys.__stdin__ = open(0, closefd=False)  # noqa: SIM115
    sys.stdout = sys.__stdout__ = open(1, "w", closefd=False)  # noqa: SIM115
    sys.stderr = sys.__stderr__ = open(2, "w", closefd=False)  # noqa: SIM115
    from rlm.cli import main

    main()
    raise SystemExit


def _import_all(package: str) -> None:
    module = importlib.import_module(package)
    for found in pkgutil.walk_packages(module.__path__, f"{package}."):
        importlib.import_module(found.name)


if __name__ == "__main__":
    importlib.import_module("typer.rich_utils")
    for package in PACKAGES:
        _import_all(package)
    gc.freeze()
    serve(socket.socket(fileno=int(sys.argv[1])))
