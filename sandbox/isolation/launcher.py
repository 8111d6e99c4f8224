"""Confines itself, then becomes the kernel. `confine` alone is for a process that is to go on as it is.

`python -I -m sandbox.isolation.launcher CONFINEMENT REPORT_FD -- ARGV…`

Everything is reported on REPORT_FD as lines of JSON: `{"init": pid}` (the process whose death ends the
kernel and all it started), `{"layer": name, "detail": words}`, `{"failed": name, "detail": words}`. The
descriptor closes when the kernel's interpreter starts, so an end without `failed` is success.
"""

from __future__ import annotations

import json
import os
import signal
import sys
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import NoReturn

from sandbox.isolation import capabilities, landlock, namespaces, rlimits, root, seccomp
from sandbox.isolation.policy import Confinement, Layer, required_layers

__all__ = ["LayerFailed", "Report", "close_other_fds", "confine", "main"]


class LayerFailed(Exception):
    """A required layer can't be had; the report has been told."""


class Report:
    """Writes lines of JSON to the broker."""

    def __init__(self, descriptor: int) -> None:
        self._descriptor = descriptor
        os.set_inheritable(descriptor, False)

    def say(self, **line: object) -> None:
        os.write(self._descriptor, json.dumps(line).encode() + b"\n")

    def apply(self, layer: Layer, mechanism: Callable[[], object], detail: str = "on") -> None:
        """Put a layer on, or report why it can't be had and give up."""
        try:
            mechanism()
        except (OSError, ValueError, LookupError) as error:
            self.say(failed=layer, detail=str(error))
            raise LayerFailed(layer) from error
        self.say(layer=layer, detail=detail)

    def close(self) -> None:
        os.close(self._descriptor)


def main(arguments: Sequence[str]) -> int:
    confinement = Confinement.from_json(arguments[0])
    report = Report(int(arguments[1]))
    command = arguments[3:]
    close_other_fds({int(arguments[1]), *confinement.keep_fds})
    try:
        confine(confinement, report)
    except LayerFailed:
        return 3
    return _become(command, confinement)


def confine(confinement: Confinement, report: Report) -> None:
    """Put the layers on, and return in the process that they hold. Where they include namespaces that is a
    grandchild; the two between never return: they wait for it and end as it did. Raises LayerFailed. The
    caller has one thread, and the report is open when this returns."""
    layers = required_layers(confinement.level)
    if "namespaces" not in layers:
        namespaces.die_with_parent()
        report.say(init=os.getpid())
    else:
        report.apply("namespaces", namespaces.enter)
        _enter_namespaces(report)
    _confine(confinement, layers, report)


def _enter_namespaces(report: Report) -> None:
    namespaces.die_with_parent()
    init = os.fork()
    if init:
        report.say(init=init)
        report.close()
        os._exit(_wait_for(init))
    namespaces.die_with_parent()
    kernel = os.fork()
    if kernel:
        report.close()
        os._exit(_wait_for(kernel))


def _confine(confinement: Confinement, layers: Sequence[Layer], report: Report) -> None:
    inside = "root" in layers
    read = [new if inside else old for old, new in confinement.read_only.items()]
    sockets = [new if inside else old for old, new in confinement.writable.items()]
    mechanisms: dict[Layer, Callable[[], object]] = {
        "root": lambda: root.change_root(
            mount_point=confinement.mount_point,
            read_only=confinement.read_only,
            writable=confinement.writable,
            hidden=confinement.hidden,
            scratch=confinement.scratch,
            scratch_mb=confinement.scratch_mb,
        ),
        "rlimits": lambda: rlimits.apply(
            memory_mb=confinement.memory_mb,
            body_bytes=confinement.body_bytes,
            file_mb=confinement.scratch_mb,
            # Outside a user namespace of its own this would count every process of the user's.
            processes=confinement.processes if inside else None,
            open_files=confinement.open_files,
        ),
        "capabilities": capabilities.drop,
        "no_new_privileges": capabilities.no_new_privileges,
        "landlock": lambda: landlock.restrict(
            read=[*root.SYSTEM_PATHS, "/proc", "/dev", *read],
            write=[confinement.scratch, "/dev/null", "/dev/zero", "/dev/full", "/dev/shm"],  # noqa: S108
            sockets=sockets,
        ),
        "seccomp": seccomp.install,
    }
    if not inside:
        os.chdir(confinement.scratch)
    for layer in layers:
        if layer in mechanisms:
            report.apply(layer, mechanisms[layer])


def _become(command: Sequence[str], confinement: Confinement) -> NoReturn:
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor in confinement.keep_fds:
        os.set_inheritable(descriptor, True)
    os.execve(command[0], list(command), dict(confinement.environment))  # noqa: S606 - that is its purpose


def _wait_for(child: int) -> int:
    """Outlive the kernel, reap whatever it leaves, end as it ended."""
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    while True:
        pid, status = os.wait()
        if pid == child:
            return os.waitstatus_to_exitcode(status) & 255


def close_other_fds(keep: set[int]) -> None:
    """Close every descriptor but the standard three and `keep`."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor > 2 and descriptor not in keep:
            try:
                os.close(descriptor)
            except OSError:
                # The listing's own descriptor is in the list and closed by now.
                continue


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
