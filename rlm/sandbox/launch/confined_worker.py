"""The driver's end of a confined worker."""

from __future__ import annotations

import json
import select
import socket
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Self

from rlm.sandbox.folders import private_folder, remove
from rlm.sandbox.isolation.policy import Candidate
from rlm.sandbox.isolation.views import boot, confinement
from rlm.sandbox.launch.probe import candidates
from rlm.sandbox.launch.program import ConfinedProgram, LayersRefused
from rlm.sandbox.types import KernelLimits

__all__ = ["ConfinedWorker", "WorkerFailed", "WorkerTimeout", "WorkerUnavailable"]

_START_SECONDS = 30.0
_TICK_SECONDS = 0.1
_DYING_SECONDS = 1.0
_LONGEST_LINE = 4096
_OPEN_FILES = 4096
_PROCESSES = 8192
"""A limit on jobs and their threads. A job itself may start no process."""
_BLOCK = 1 << 20


class WorkerFailed(Exception):
    """A job gave no result. The message is the reason: it crashed, or its walls failed."""


class WorkerTimeout(WorkerFailed):
    """A job took longer than it may. It was killed."""


class WorkerUnavailable(WorkerFailed):
    """No worker can be started on this machine."""


class ConfinedWorker:
    """A process without files, network and rights that runs jobs, each in a process of its own.

    A job is a function, `module:function`, called as `function(argument, channel, files)`: `argument` is a
    short trusted text, `channel` a connected socket to the caller, `files` the descriptors that `begin` was
    given. If the module has a function `prepare(argument)`, it is called before, once, where files can still
    be read: it imports and opens what the job needs. The job itself can open nothing: no file, socket or
    process. Whatever it does not trust must come over the channel or from the files.

    The worker is started by the first job, and watched as kernels are: from level 2 on in namespaces and a
    root of its own. It is started again if it has died. Safe to use from any thread. A context manager.
    """

    def __init__(self, *, memory_mb: int, ways: Sequence[Candidate] | None = None) -> None:
        """Prepare a worker. `memory_mb` limits each job. `ways` are tried in order; the default is every way
        of this machine, the strongest first."""
        self._memory_mb = memory_mb
        self._ways = ways
        self._lock = threading.Lock()
        self._running: ConfinedProgram | None = None
        self._refused: dict[str, str] = {}

    @property
    def level(self) -> int | None:
        """Return the isolation level of the running worker, or None if none runs."""
        return None if self._running is None else self._running.report.level

    @property
    def refused(self) -> Mapping[str, str]:
        """Return the layers of stronger ways that failed at the start, with the system's reasons."""
        return dict(self._refused)

    @property
    def pid(self) -> int | None:
        """Return the process whose end ends the worker and its jobs, or None if none runs."""
        return None if self._running is None else self._running.pid

    def start(self) -> None:
        """Start the worker now, if it does not run. Raises WorkerUnavailable."""
        with self._lock:
            self._ensure()

    def begin(
        self,
        function: str,
        argument: str = "",
        *,
        files: Sequence[int] = (),
        cpu_seconds: int | None = None,
        seconds: float = _START_SECONDS,
    ) -> socket.socket:
        """Start a job and return its channel, once its walls are up. Closing the channel kills the job.

        `seconds` limits the wait for the walls, not the job. Raises WorkerFailed.
        """
        request = {"function": function, "argument": argument, "cpu_seconds": cpu_seconds}
        message = json.dumps(request).encode()
        try:
            try:
                return self._begin(message, files, seconds)
            except EOFError:
                # The worker has died since its last job, or the job died.
                return self._begin(message, files, seconds)
        except TimeoutError as error:
            # The worker stands still: the next job gets a new one.
            self.close()
            raise WorkerFailed(f"{function} did not begin in {seconds:g} s") from error
        except (OSError, EOFError, ValueError, KeyError, TypeError) as error:
            raise WorkerFailed(f"{function} ended before it began ({error})") from error

    def call(
        self,
        function: str,
        request: bytes,
        argument: str = "",
        *,
        seconds: float,
        most_bytes: int,
        files: Sequence[int] = (),
        tick: Callable[[], None] | None = None,
    ) -> bytes:
        """Run a job: send `request`, and return all that it sends back until it closes its channel.

        It is killed after `seconds`, or when it sends more than `most_bytes`. `tick` is called every 0.1 s
        and may raise. An empty result means that the job crashed. Raises WorkerFailed or WorkerTimeout.
        """
        until = time.monotonic() + seconds
        with self.begin(function, argument, files=files, cpu_seconds=int(seconds) + 1) as channel:
            try:
                return _exchange(channel, request, until, most_bytes, tick)
            except TimeoutError:
                raise WorkerTimeout(f"{function} took longer than {seconds:g} s") from None
            except OSError as error:
                raise WorkerFailed(f"{function} ended early ({error})") from error

    def close(self) -> None:
        """Kill the worker with its jobs. The next job starts a new one."""
        with self._lock:
            running, self._running = self._running, None
        if running is not None:
            running.end()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _begin(self, message: bytes, files: Sequence[int], seconds: float) -> socket.socket:
        """Start a job and return its channel. Raises EOFError if it or the worker died, and WorkerFailed."""
        until = time.monotonic() + seconds
        channel, theirs = socket.socketpair()
        try:
            with theirs:
                running = self._send(message, [theirs.fileno(), *files])
            try:
                answer = json.loads(_read_line(channel, until))
            except EOFError:
                self._drop_if_dead(running)
                raise
            if "error" in answer:
                raise WorkerFailed(answer["error"])
            if answer["failed"]:
                if running.report.level > 0:
                    reasons = "; ".join(f"{wall}: {reason}" for wall, reason in answer["failed"].items())
                    raise WorkerFailed(f"the process was not confined: {reasons}")
                self._refused.update(answer["failed"])
        except BaseException:
            channel.close()
            raise
        return channel

    def _send(self, message: bytes, descriptors: Sequence[int]) -> ConfinedProgram:
        with self._lock:
            running = self._ensure()
            try:
                # A sequenced socket sends a message whole or not at all.
                socket.send_fds(running.channel, [message], descriptors)
            except (BrokenPipeError, ConnectionResetError) as error:
                running.end()
                self._running = None
                raise EOFError("the worker has died") from error
        return running

    def _drop_if_dead(self, running: ConfinedProgram) -> None:
        """Clean up after a worker that has died. Its other jobs keep one that lives."""
        with self._lock:
            if running.has_ended(_DYING_SECONDS):
                running.end()
                if self._running is running:
                    self._running = None

    def _ensure(self) -> ConfinedProgram:
        if self._running is None:
            self._running = self._launch()
        return self._running

    def _launch(self) -> ConfinedProgram:
        refused: dict[str, str] = {}
        for way in self._ways or _every_way():
            try:
                running = _launch(way, self._memory_mb)
            except LayersRefused as refusal:
                for layer, reason in refusal.failed.items():
                    refused.setdefault(layer, reason)
                continue
            except (OSError, ValueError) as error:
                refused.setdefault(f"worker at {way}", str(error))
                continue
            self._refused = refused
            return running
        reasons = "; ".join(f"{layer}: {reason}" for layer, reason in refused.items())
        raise WorkerUnavailable(f"no confined process can be started here ({reasons})")


def _every_way() -> list[Candidate]:
    return [*candidates(2)[0], Candidate(1), Candidate(0)]


def _launch(way: Candidate, memory_mb: int) -> ConfinedProgram:
    """Start a worker and wait until it takes jobs. Raises LayersRefused, or OSError."""
    folder = private_folder("worker", Path(tempfile.gettempdir()))
    until = time.monotonic() + _START_SECONDS
    try:
        # A program and no fork: its memory is laid out as no kernel's is, and holds nothing of one.
        command = [sys.executable, "-I", "-S", *boot("launch.jobs"), str(way.level)]
        limits = KernelLimits(memory_mb, scratch_mb=1, processes=_PROCESSES, open_files=_OPEN_FILES)
        walls = confinement(way, folder, limits, "worker")
        running = ConfinedProgram(walls, command, seconds=_START_SECONDS)
        try:
            running.channel.settimeout(max(0.001, until - time.monotonic()))
            if running.channel.recv(16) != b"ready":
                raise ConnectionResetError(running.last_line() or "it ended at once")
            running.channel.settimeout(None)
        except BaseException:
            running.end()
            raise
    finally:
        # It holds what it needs of the folder. Removed now, nothing is left of it whatever ends this process.
        remove(folder)
    return running


def _exchange(
    channel: socket.socket, request: bytes, until: float, most_bytes: int, tick: Callable[[], None] | None
) -> bytes:
    channel.setblocking(False)
    waiting = select.poll()
    waiting.register(channel, select.POLLIN | select.POLLOUT)
    rest, answer = memoryview(request), bytearray()
    while True:
        remaining = until - time.monotonic()
        if remaining <= 0:
            raise TimeoutError
        ready = waiting.poll(min(remaining, _TICK_SECONDS) * 1_000)
        if tick is not None:
            tick()
        for _, event in ready:
            if event & select.POLLIN or event & select.POLLHUP:
                piece = channel.recv(_BLOCK)
                answer += piece
                if len(answer) > most_bytes:
                    raise OSError(f"it sent more than {most_bytes:,} bytes")
                if not piece:
                    return bytes(answer)
            elif event & select.POLLOUT:
                rest = rest[channel.send(rest[:_BLOCK]) :]
                if not rest:
                    channel.shutdown(socket.SHUT_WR)
                    waiting.modify(channel, select.POLLIN)


def _read_line(channel: socket.socket, until: float) -> bytes:
    """Read the first line, byte by byte: what follows it is the job's."""
    line = bytearray()
    while not line.endswith(b"\n") and len(line) < _LONGEST_LINE:
        channel.settimeout(max(0.001, until - time.monotonic()))
        byte = channel.recv(1)
        if not byte:
            raise EOFError("no answer")
        line += byte
    channel.settimeout(None)
    return bytes(line)
