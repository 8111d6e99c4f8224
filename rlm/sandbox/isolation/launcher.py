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
        _take_over(report, confinement, lambda: become(arguments[5:], confinement))
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
    layers = LEVELS[confinement.level]
    group: Cgroup | None = None

    def create_group() -> str:
        nonlocal group
        group = Cgroup.create(
            memory_mb=confinement.memory_mb,
            scratch_mb=confinement.scratch_mb,
            processes=confinement.processes,
        )
        return f"on: {confinement.memory_mb} MB and {confinement.processes} processes together"

    try:
        if "cgroup" in layers:
            report.apply("cgroup", create_group)
        if "subreaper" in layers:
            report.apply("subreaper", orphans.adopt)
        if confinement.launcher == "bubblewrap":
            return _start_bubblewrap(confinement, report, group, command, serve)
        return _fork(confinement, report, group, run, serve)
    except LayerFailed:
        return _REFUSED
    finally:
        # Kill what is left of the kernel's processes.
        if "subreaper" in layers:
            orphans.end_all()
        if group is not None:
            group.remove()


def _fork(confinement: Confinement, report: LayerReport, group: Cgroup | None, run: Run, serve: Serve) -> int:
    """Fork and confine a child, and call `run` in it."""
    in_namespaces = "namespaces" in LEVELS[confinement.level]
    first, user = _fork_inside(report) if in_namespaces else (os.fork(), None)
    if first:
        if in_namespaces:
            report.say(layer="namespaces", detail="on")
        report.close()
        return serve(first, first)
    try:
        _enter_group(confinement, group, report.descriptor)
        if in_namespaces:
            namespaces.hide_control_group()
            kernel = os.fork()
            if kernel:
                report.close()
                os._exit(_wait_for(kernel))
        confine(confinement, report, user)
        _take_over(report, confinement, run)
    except LayerFailed:
        os._exit(_REFUSED)
    except BaseException:
        # The child must not return into its parent's clean-up.
        traceback.print_exc()
        os._exit(_REFUSED)


def _fork_inside(report: LayerReport) -> tuple[int, int | None]:
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


def _start_bubblewrap(
    confinement: Confinement, report: LayerReport, group: Cgroup | None, command: Sequence[str], serve: Serve
) -> int:
    """Let bubblewrap create namespaces and root, and go on in them with `inside`."""
    info, info_theirs = os.pipe()
    begun, begun_theirs = os.pipe()
    log = os.dup(2)
    complaints = os.memfd_create("bubblewrap")
    passed = (report.descriptor, info_theirs, begun_theirs, log)
    child = os.fork()
    if not child:
        _enter_group(confinement, group, *passed, complaints)
        words = [confinement.to_json(), *map(str, (report.descriptor, log, begun_theirs)), "--", *command]
        try:
            line = bubblewrap.command(confinement, words, info_theirs)
            for descriptor in (*passed, *confinement.keep_fds):
                os.set_inheritable(descriptor, True)
            os.dup2(complaints, 2)
            os.execve(line[0], line, dict(confinement.environment))  # noqa: S606 - that is its purpose
        except OSError as error:
            os.write(complaints, str(error).encode())
            os._exit(_REFUSED)
    for descriptor in passed[1:]:
        os.close(descriptor)
    first = bubblewrap.init_pid(info)
    if first is not None and os.read(begun, 1):
        report.close()
        return serve(first, child)
    _wait_for(child)
    said = os.pread(complaints, 2_000, 0).decode(errors="replace").strip()
    report.fail("namespaces", said or "bubblewrap ended at once")
    return _REFUSED


def _enter_group(confinement: Confinement, group: Cgroup | None, *kept: int) -> None:
    """Enter the control group, end with the parent, and keep only the descriptors that are given."""
    signal.signal(signal.SIGTERM, signal.SIG_DFL)
    namespaces.die_with_parent()
    if group is not None:
        group.enter()
    close_other_fds({*kept, *confinement.keep_fds})


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

    # Read now: a layer before it may hide the file. A failure is reported where the filter is applied.
    with suppress(OSError):
        seccomp.program(confinement.role)
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
        "seccomp": lambda: seccomp.install(seccomp.program(confinement.role)),
    }
    if not private_root:
        os.chdir(confinement.scratch)
    elif confinement.launcher == "bubblewrap":
        del mechanisms["root"]
    for layer in layers:
        if layer in mechanisms:
            report.apply(layer, mechanisms[layer])


def _take_over(report: LayerReport, confinement: Confinement, run: Run) -> NoReturn:
    try:
        run()
    except OSError as error:
        # The layers hide files that the interpreter needs: this machine cannot provide the level.
        last = LEVELS[confinement.level][-1]
        report.fail(last, f"the kernel's interpreter does not start under it: {error}")
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
