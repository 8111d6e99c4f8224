"""The worker itself: it imports what jobs need and forks a process for each.

It runs trusted code on trusted words only. What a job sends and receives goes over the job's own channel,
which the worker never reads. So a job that is taken over reaches neither the worker nor the next job.
"""

from __future__ import annotations

import gc
import importlib
import json
import os
import resource
import select
import signal
import socket
import traceback
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import Any, NoReturn

from rlm.sandbox.isolation.layers import landlock, privileges, seccomp
from rlm.sandbox.isolation.syscalls import check_result, libc

__all__ = ["main"]

_LONGEST_REQUEST = 4096
_MOST_FILES = 8
_PR_SET_DUMPABLE = 4
_LAST_WORDS_SECONDS = 5


def main(arguments: Sequence[str]) -> NoReturn:
    """Serve jobs. The arguments are the isolation level, and the descriptor of the channel of requests."""
    level, requests = map(int, arguments)
    signal.signal(signal.SIGINT, signal.SIG_IGN)
    if level:
        _hide_from_tracing()
    with suppress(OSError):  # a job tells why
        seccomp.program("job")  # once for all jobs, each of which would read it anew
    _Template(socket.socket(fileno=requests), is_strict=level > 0).serve()


class _Template:
    def __init__(self, requests: socket.socket, *, is_strict: bool) -> None:
        self._requests = requests
        self._is_strict = is_strict
        self._jobs: dict[int, tuple[int, socket.socket]] = {}  # channel's descriptor -> process, channel
        self._prepared: set[tuple[str, str]] = set()
        self._poll = select.poll()

    def serve(self) -> NoReturn:
        """Fork a job for each request, until the driver closes its end and the last job has ended."""
        woken, waker = os.pipe2(os.O_NONBLOCK)
        signal.set_wakeup_fd(waker, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        self._poll.register(woken, select.POLLIN)
        self._poll.register(self._requests, select.POLLIN)
        self._requests.send(b"ready")
        is_open = True
        while is_open or self._jobs:
            ready = [descriptor for descriptor, _ in self._poll.poll()]
            # In this order: a new job may get the descriptor of one that was reaped.
            for descriptor in ready:
                if descriptor in self._jobs:
                    # The driver has closed its end of the job's channel.
                    self._end(descriptor)
            if woken in ready:
                with suppress(BlockingIOError):
                    os.read(woken, 1024)
                self._reap()
            if is_open and self._requests.fileno() in ready:
                is_open = self._receive()
        os._exit(0)

    def _receive(self) -> bool:
        message, descriptors, _, _ = socket.recv_fds(self._requests, _LONGEST_REQUEST, _MOST_FILES)
        if not message:
            self._poll.unregister(self._requests)
            return False
        request = json.loads(message)
        channel, files = socket.socket(fileno=descriptors[0]), descriptors[1:]
        try:
            run = self._prepare(request["function"], request["argument"])
        except Exception as error:
            # The boundary: a job that cannot be prepared must not end the others.
            with suppress(OSError):
                channel.sendall(_line(error=f"{type(error).__name__}: {error}"))
            channel.close()
        else:
            pid = os.fork()
            if pid == 0:
                self._become_job(run, request, channel, files)
            self._jobs[channel.fileno()] = pid, channel
            # Only the end of the channel is of interest, which poll reports without being asked.
            self._poll.register(channel, 0)
        for file in files:
            os.close(file)
        return True

    def _prepare(self, name: str, argument: str) -> Callable[..., object]:
        module_name, _, function = name.partition(":")
        module = importlib.import_module(module_name)
        if (name, argument) not in self._prepared:
            prepare = getattr(module, "prepare", None)
            if prepare is not None:
                prepare(argument)
            self._prepared.add((name, argument))
            gc.collect()
            # Objects made so far stay in every job. If the collector skips them, their pages stay shared.
            gc.freeze()
        run: Callable[..., object] = getattr(module, function)
        return run

    def _become_job(
        self,
        run: Callable[..., object],
        request: dict[str, Any],
        channel: socket.socket,
        files: list[int],
    ) -> NoReturn:
        status = 1
        try:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            self._requests.close()
            for _, other in self._jobs.values():
                other.close()
            failed = _confine_job(request["cpu_seconds"])
            channel.sendall(_line(failed=failed))
            if not failed or not self._is_strict:
                run(request["argument"], channel, files)
                status = 0
        except BrokenPipeError:
            pass  # the driver no longer wants the result
        except BaseException:
            # A job must end here and never return into the worker's frames.
            traceback.print_exc()
        finally:
            os._exit(status)

    def _end(self, descriptor: int) -> None:
        pid, _ = self._jobs[descriptor]
        self._poll.unregister(descriptor)
        with suppress(ProcessLookupError):
            os.kill(pid, signal.SIGKILL)

    def _reap(self) -> None:
        for descriptor, (pid, channel) in list(self._jobs.items()):
            if os.waitpid(pid, os.WNOHANG)[0]:
                del self._jobs[descriptor]
                with suppress(KeyError):
                    self._poll.unregister(descriptor)
                channel.close()


def _hide_from_tracing() -> None:
    """Let no process of the same user trace this one or read its memory. It also leaves no core dump."""
    check_result(libc.prctl(_PR_SET_DUMPABLE, 0, 0, 0, 0), "prctl(DUMPABLE)")


def _confine_job(cpu_seconds: int | None) -> dict[str, str]:
    """Confine this process for good. Return the walls that failed, with the system's reasons.

    After `cpu_seconds` of CPU (None: no limit) it gets SIGXCPU, which ends it unless it has a handler, and
    SIGKILL 5 s later.
    """
    failed: dict[str, str] = {}

    def apply(wall: str, mechanism: Callable[[], object]) -> None:
        try:
            mechanism()
        except (OSError, ValueError, LookupError) as error:
            failed[wall] = str(error)

    apply("rlimits", lambda: _limit(cpu_seconds))
    apply("dumpable", _hide_from_tracing)
    apply("no_new_privileges", privileges.no_new_privileges)
    # Not a single path: what the job needs is open or imported.
    apply("landlock", lambda: landlock.restrict(read=(), write=()))
    apply("seccomp", lambda: seccomp.install(seccomp.program("job")))
    return failed


def _limit(cpu_seconds: int | None) -> None:
    for kind in (resource.RLIMIT_NPROC, resource.RLIMIT_FSIZE, resource.RLIMIT_CORE):
        resource.setrlimit(kind, (0, 0))
    if cpu_seconds is not None:
        resource.setrlimit(resource.RLIMIT_CPU, (cpu_seconds, cpu_seconds + _LAST_WORDS_SECONDS))


def _line(**values: object) -> bytes:
    return json.dumps(values).encode() + b"\n"
