"""Confines a child, which becomes a kernel or a program. The watcher that launched it stays and cleans up."""

from __future__ import annotations

import os
import signal
import sys
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from pathlib import Path
from typing import NoReturn

from rlm.sandbox.isolation import bubblewrap, orphans
from rlm.sandbox.isolation.layers import (
    filesystem_root,
    landlock,
    namespaces,
    privileges,
    rlimits,
    seccomp,
)
from rlm.sandbox.isolation.layers.cgroup import Cgroup
from rlm.sandbox.isolation.policy import LEVELS, Confinement, Layer, LayerFailed, LayerReport

__all__ = ["become", "close_other_fds", "confine", "inside", "launch"]

_REFUSED = 3
_ANY_BODY = 2**40
"""A kernel may start before its context is known. It lowers its own address limit when it gets its context,
before the first cell."""
_DEVICES = ("/dev/null", "/dev/full", "/dev/random", "/dev/urandom")
"""Not /dev/zero: a shared mapping of it is memory that no limit of a process counts."""
_OWN_PROC = ("/proc/self", "/proc/cpuinfo", "/proc/meminfo", "/proc/stat", "/proc/filesystems")

Run = Callable[[], NoReturn]
Serve = Callable[[int, int], int]
"""Takes the process whose death ends all, and the child to wait for. Returns the child's status as a shell
does."""


def inside(arguments: Sequence[str]) -> NoReturn:
    """Go on as `launch` inside the namespaces and the root that bubblewrap created."""
    confinement = Confinement.from_json(arguments[0])
    report = LayerReport(int(arguments[1]))
    log, begun = int(arguments[2]), int(arguments[3])
    os.dup2(log, 2)
    os.write(begun, b"1")
    for descriptor in (log, begun):
        os.close(descriptor)
    report.say(layer="namespaces", detail="on, by bubblewrap")
    try:
        report.apply(
            "root",
            lambda: filesystem_root.tighten(scratch=confinement.scratch, scratch_mb=confinement.scratch_mb),
        )
        confine(confinement, report, user=None)
        _take_over(report, LEVELS[confinement.level], lambda: become(arguments[5:], confinement))
    except LayerFailed:
        sys.exit(_REFUSED)


def launch(
    confinement: Confinement, report: LayerReport, command: Sequence[str], run: Run, serve: Serve
) -> int:
    """Fork a child, confine it and call `run` in it. Return the status of `serve`, or 3 if a layer failed.

    bubblewrap can only start a program: there `command` is the child. `run` closes the report; if it raises
    OSError, the interpreter does not start in the confinement. The child keeps the descriptors `keep_fds` of
    the confinement, and no others. The caller must have one thread.
    """
    launcher = _Launcher(confinement, serve)
    if confinement.launcher == "bubblewrap":
        return launcher.run(report, lambda: launcher.start_bubblewrap(report, command))
    return launcher.run(report, lambda: launcher.fork(report, run))


class _Launcher:
    """The process that stays outside the namespaces and the cgroup that it creates."""

    def __init__(self, confinement: Confinement, serve: Serve) -> None:
        self._confinement = confinement
        self._serve = serve
        self._layers = LEVELS[confinement.level]
        self._group: Cgroup | None = None

    def run(self, report: LayerReport, start: Callable[[], int]) -> int:
        """Call `start` in a control group, and clean up after it."""
        try:
            if "cgroup" in self._layers:
                report.apply("cgroup", self._create_group)
            return start()
        except LayerFailed:
            return _REFUSED
        finally:
            self._clean_up()

    def _create_group(self) -> str:
        """Create the control group. Returns the detail for the report."""
        wanted = self._confinement
        self._group = Cgroup.create(
            memory_mb=wanted.memory_mb, scratch_mb=wanted.scratch_mb, processes=wanted.processes
        )
        return f"on: {wanted.memory_mb} MB and {wanted.processes} processes together"

    def fork(self, report: LayerReport, run: Run) -> int:
        """Fork and confine a child, and call `run` in it."""
        user: int | None = None
        if "namespaces" in self._layers:
            first, user = self._fork_inside(report)
        else:
            report.apply("subreaper", orphans.adopt)
            first = os.fork()
        if first:
            if "namespaces" in self._layers:
                report.say(layer="namespaces", detail="on")
            report.say(init=first)
            report.close()
            return self._serve(first, first)
        try:
            self._enter_group(report)
            if "namespaces" in self._layers:
                namespaces.hide_control_group()
                kernel = os.fork()
                if kernel:
                    report.close()
                    os._exit(_wait_for(kernel))
            confine(self._confinement, report, user)
            _take_over(report, self._layers, run)
        except LayerFailed:
            os._exit(_REFUSED)
        except BaseException:
            # The child must not return into its parent's clean-up.
            traceback.print_exc()
            os._exit(_REFUSED)

    def _fork_inside(self, report: LayerReport) -> tuple[int, int | None]:
        """Fork into new namespaces. Return the child's id there, 0 in it, and the kernel's user id."""
        user, kept = None, None
        try:
            user = privileges.find_unused_id()
        except privileges.RootKept as error:
            kept = error
        try:
            first = namespaces.fork_inside(user)
        except OSError as error:
            report.fail("namespaces", str(error))
            raise LayerFailed("namespaces") from error
        if kept is not None:
            # Reported last: where namespaces are refused, that is the reason to mend.
            if not first:
                os._exit(_REFUSED)
            os.waitpid(first, 0)
            report.fail("rlimits", str(kept))
            raise LayerFailed("rlimits")
        return first, user

    def start_bubblewrap(self, report: LayerReport, command: Sequence[str]) -> int:
        """Let bubblewrap create namespaces and root, with our launcher inside them."""
        info, info_theirs = os.pipe()
        begun, begun_theirs = os.pipe()
        log = os.dup(2)
        complaints = os.memfd_create("bubblewrap")
        passed = (info_theirs, begun_theirs, log)
        child = os.fork()
        if not child:
            self._enter_group(report, *passed, complaints)
            inner = [
                self._confinement.to_json(),
                str(report.hand_on()),
                str(log),
                str(begun_theirs),
                "--",
                *command,
            ]
            try:
                line = bubblewrap.command(self._confinement, inner, info_theirs)
                for descriptor in (*passed, *self._confinement.keep_fds):
                    os.set_inheritable(descriptor, True)
                os.dup2(complaints, 2)
                os.execve(line[0], line, dict(self._confinement.environment))  # noqa: S606 - that is its purpose
            except OSError as error:
                os.write(complaints, str(error).encode())
                os._exit(_REFUSED)
        for descriptor in passed:
            os.close(descriptor)
        first = bubblewrap.init_pid(info)
        if first is not None:
            report.say(init=first)
        if first is not None and os.read(begun, 1):
            report.close()
            return self._serve(first, child)
        _wait_for(child)
        said = os.pread(complaints, 2_000, 0).decode(errors="replace").strip()
        report.fail("namespaces", said or "bubblewrap ended at once")
        return _REFUSED

    def _clean_up(self) -> None:
        """Kill what is left of the kernel's processes and remove the control group."""
        if "subreaper" in self._layers:
            orphans.end_all()
        if self._group is not None:
            self._group.remove()

    def _enter_group(self, report: LayerReport, *kept: int) -> None:
        signal.signal(signal.SIGTERM, signal.SIG_DFL)
        namespaces.die_with_parent()
        if self._group is not None:
            self._group.enter()
        close_other_fds({report.descriptor, *kept, *self._confinement.keep_fds})


def confine(confinement: Confinement, report: LayerReport, user: int | None) -> None:
    """Apply to this process the layers of its level that do not exist around it already.

    `user` is the id that it switches to. Raises LayerFailed.
    """
    layers = LEVELS[confinement.level]
    private_root = "root" in layers
    read = [new if private_root else old for old, new in confinement.read_only.items()]
    # Without a private root, /dev/shm is shared with the host.
    shared = ["/dev/shm"] if private_root else []  # noqa: S108
    proc = ["/proc"] if private_root else [str(Path(path).resolve()) for path in _OWN_PROC]

    def limits() -> str | None:
        words = None
        if user is not None:
            words = privileges.switch_user(
                user,
                owned=[confinement.scratch, *shared],
                must_read=[sys.executable, *read],
            )
        rlimits.apply(
            memory_mb=confinement.memory_mb,
            body_bytes=_ANY_BODY if confinement.role == "kernel" else 0,
            file_mb=confinement.scratch_mb,
            processes=confinement.processes + (0 if private_root else privileges.count_user_threads()),
            open_files=confinement.open_files,
        )
        return words

    # Read now: a layer below may hide the file.
    program = seccomp.program(confinement.role) if "seccomp" in layers else b""
    mechanisms: dict[Layer, Callable[[], object]] = {
        "root": lambda: filesystem_root.change_root(
            mount_point=confinement.mount_point,
            read_only=confinement.read_only,
            hidden=confinement.hidden,
            scratch=confinement.scratch,
            scratch_mb=confinement.scratch_mb,
        ),
        "rlimits": limits,
        "capabilities": privileges.drop,
        "no_new_privileges": privileges.no_new_privileges,
        "landlock": lambda: landlock.restrict(
            read=[*filesystem_root.SYSTEM_PATHS, *proc, *_DEVICES, *read],
            write=[confinement.scratch, *_DEVICES[:2], *shared],
        ),
        "seccomp": lambda: seccomp.install(program),
    }
    if not private_root:
        os.chdir(confinement.scratch)
    elif confinement.launcher == "bubblewrap":
        del mechanisms["root"]
    for layer in layers:
        if layer in mechanisms:
            report.apply(layer, mechanisms[layer])


def _take_over(report: LayerReport, layers: Sequence[Layer], run: Run) -> NoReturn:
    try:
        run()
    except OSError as error:
        # The layers hide files that the interpreter needs: this machine cannot provide the level.
        report.fail(layers[-1], f"the kernel's interpreter does not start under it: {error}")
        raise LayerFailed from error


def become(command: Sequence[str], confinement: Confinement) -> NoReturn:
    """Run the program `command` in this process."""
    signal.signal(signal.SIGINT, signal.default_int_handler)
    for descriptor in confinement.keep_fds:
        os.set_inheritable(descriptor, True)
    os.execve(command[0], list(command), dict(confinement.environment))  # noqa: S606 - that is its purpose


def _wait_for(child: int) -> int:
    """Reap processes until `child` has ended. Return its status as a shell does."""
    while True:
        pid, status = os.wait()
        if pid == child:
            code = os.waitstatus_to_exitcode(status)
            return code if code >= 0 else 128 - code


def close_other_fds(keep: set[int]) -> None:
    """Close every descriptor except the standard three and those in `keep`."""
    for entry in list(Path("/proc/self/fd").iterdir()):
        descriptor = int(entry.name)
        if descriptor > 2 and descriptor not in keep:
            # The list holds the descriptor of the listing itself, which is closed by now.
            with suppress(OSError):
                os.close(descriptor)
