"""One kernel process: its folder, its supervisor, its broker and its sockets.

A kernel serves one context and is then shut down, so that no data of one context reaches another.
"""

from __future__ import annotations

import asyncio
import functools
import os
import secrets
import socket
from collections.abc import Collection, Mapping, Sequence
from concurrent.futures import Future
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelDied, KernelStartError, ProtocolError, SandboxRefused
from rlm.sandbox.folders.private_folder import private_folder, socket_top, sweep_folders
from rlm.sandbox.folders.removal import remove, wait_at_most
from rlm.sandbox.forkserver.client import shared_forkserver
from rlm.sandbox.host.events import checked_event
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.helper_api.registry import Helper
from rlm.sandbox.isolation.advice import refusal
from rlm.sandbox.isolation.layers import rlimits
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.isolation.probe import Candidate, candidates
from rlm.sandbox.launch.brokers import BrokersUnavailable, open_broker, warm_brokers
from rlm.sandbox.launch.kernel_view import confinement, kernel_package
from rlm.sandbox.launch.supervisor_process import (
    PlainSupervisors,
    SupervisorLink,
    Supervisors,
    SupervisorUnavailable,
)
from rlm.sandbox.types import KernelLimits, Span

__all__ = ["FreshKernels", "KernelProcess", "KernelSource"]

_SHUTDOWN_SECONDS = 2.0
_DEAD_KERNEL_SECONDS = 0.5
_SWEEP_SECONDS = 5.0
_REST_SECONDS = 30.0
_MAX_UNREAD_EVENTS = 32
_SOCKETS = "s"
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")
_SUPERVISOR_EVENTS = ("confined", "refused", "failed", "interrupted", "computing", "ended", "died")
_BROKER_EVENTS = ("connected", "result")
_LOG_BYTES = 10_000


class KernelProcess:
    """One kernel from start to end. Call `start`, then `attach` once, then `send` and `event` for cells."""

    def __init__(self, limits: KernelLimits, supervisors: Supervisors) -> None:
        self._limits = limits
        self._supervisors = supervisors
        self._link: SupervisorLink | None = None
        self._folder: Path | None = None
        self._reading: list[asyncio.Task[None]] = []
        self._broker: asyncio.StreamWriter | None = None
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._closing = asyncio.Lock()
        self._is_helper_attached = False
        self._is_closing = False
        self._computed = 0.0
        self._at_rest = asyncio.Event()
        self._at_rest.set()
        self.death: str | None = None
        self.isolation = IsolationReport(0)

    @property
    def alive(self) -> bool:
        """Return whether the kernel runs, as far as the driver knows."""
        return self._link is not None and self.death is None

    async def start(self, candidate: Candidate) -> Mapping[str, str]:
        """Start the kernel with the isolation of `candidate`.

        Returns the layers that failed, with the reasons from the system. If the mapping is empty, the kernel
        runs. Raises KernelStartError. After any failure, everything is cleaned up.
        """
        try:
            failed = await self._start(candidate)
        except BrokersUnavailable as error:
            failed = error.failed
        except BaseException:
            await self.close()
            raise
        if failed:
            await self.close()
        return failed

    async def attach(
        self,
        context: ContextFile,
        seed: str | None = None,
        window: Span | None = None,
        tools: Sequence[Helper] = (),
        *,
        shared: bool = False,
    ) -> socket.socket:
        """Give the kernel its context and return the helper channel. The caller must close the channel.

        The context is passed as open files, so the kernel needs no path of the host. `seed` seeds the
        kernel's random numbers; None uses a random seed. `window` is the part of the body that the kernel's
        `context` shows. `tools` are the host tools. A `shared` kernel runs the cells of several questions;
        before each cell it asks which part of the body the question covers.
        Raises KernelStartError.
        """
        assert self._link is not None
        helper_socket = self._link.helper
        limit = rlimits.address_bytes(
            memory_mb=self._limits.memory_mb, body_bytes=context.bytes + context.table_bytes
        )
        with ExitStack() as stack:
            try:
                files = [stack.enter_context(file) for file in context.open_files()]
            except OSError as error:
                raise KernelStartError(f"the context could not be passed to the kernel: {error}") from error
            try:
                message = wire.encode(
                    {
                        "address_bytes": limit,
                        "seed": seed,
                        "window": window,
                        "shared": shared,
                        "tools": [[tool.name, tool.signature, tool.summary] for tool in tools],
                    }
                )
                sent = socket.send_fds(helper_socket, [message], [file.fileno() for file in files])
                await asyncio.get_running_loop().sock_sendall(helper_socket, message[sent:])
            except OSError as error:
                raise KernelStartError(
                    f"the kernel ended before it received its context ({error})"
                ) from error
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                header = await _receive(helper_socket, wire.HEADER_SIZE)
                answer = wire.decode(await _receive(helper_socket, wire.body_size(header)))
        except TimeoutError:
            raise KernelStartError("the kernel did not confirm its context in time") from None
        except (OSError, EOFError, wire.WireError) as error:
            raise KernelStartError(f"the kernel ended before it received its context ({error})") from error
        if answer.get("attached") is not True:
            raise KernelStartError(f"the kernel could not read its context: {answer.get('detail')}")
        if self.death is not None:
            raise KernelStartError(f"the kernel ended before it received its context ({self.death})")
        self._is_helper_attached = True
        return helper_socket

    async def execute(self, number: int, code: str, round_: int) -> None:
        """Send a cell. Its result is an event with the id `number`. Raises KernelDied."""
        # The processes of this cell must not be taken for those that the last one left.
        try:
            async with asyncio.timeout(_REST_SECONDS):
                await self._at_rest.wait()
        except TimeoutError:
            await self.kill("what the last cell left could not be ended")
            raise KernelDied(f"the kernel died: {self.death}") from None
        await self._send(self._supervisor, {"op": "begin_cell"})
        await self._send(self._broker, {"op": "execute", "id": number, "code": code, "round": round_})

    async def interrupt(self) -> None:
        """Interrupt the kernel as Ctrl-C does. Raises KernelDied."""
        await self._send(self._supervisor, {"op": "interrupt"})

    async def event(self) -> dict[str, Any]:
        """Return the next event from the broker. Cancelling the wait loses no event."""
        return await self._events.get()

    def take_computed(self) -> float:
        """Return the seconds that the kernel has computed since the last call, by its supervisor's report."""
        computed, self._computed = self._computed, 0.0
        return computed

    async def kill(self, reason: str) -> None:
        """Tell the supervisor to kill the kernel. Marks it as dead at once."""
        self.death = reason
        with suppress(KernelDied):
            await self._send(self._supervisor, {"op": "kill"})

    def kill_now(self, error: ProtocolError) -> None:
        """Kill the kernel and its broker at once, because both may be compromised."""
        if self.death is None:
            self.death = str(error)
            if self._link is not None:
                self._link.process.kill()
            if self._broker is not None:
                self._broker.transport.abort()

    async def close(self) -> None:
        """Shut down the kernel with every process that it started. Removes its files. Safe to call twice."""
        # Shielded: if the caller is cancelled, the shutdown still completes.
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        # A pool and the sandbox that uses the kernel may close it at the same time.
        async with self._closing:
            await self._end()

    async def _end(self) -> None:
        # The order matters. Closing the broker's channel kills the broker. Closing the supervisor's channel
        # asks it to stop: it kills the kernel, removes its files and exits. A supervisor that does not exit
        # in time is killed; the launcher dies with its parent, and the kernel with the launcher. The folder
        # is removed last, when no process can write to it. The removal has a time limit, because a cell may
        # have made a million files: the rest is removed in the background.
        self._is_closing = True
        if self._broker is not None:
            self._broker.transport.abort()
            self._broker = None
        if self._link is not None:
            link = self._link
            # If no reader task was started, only the raw socket must be closed.
            if self._reading:
                self._supervisor.close()
            else:
                link.channel.close()
            if not self._is_helper_attached:
                link.helper.close()
            try:
                await asyncio.wait_for(
                    link.process.wait(), _SHUTDOWN_SECONDS if self.death is None else _DEAD_KERNEL_SECONDS
                )
            except TimeoutError:
                link.process.kill()
                await link.process.wait()
            self._link = None
        reading, self._reading = self._reading, []
        for task in reading:
            task.cancel()
        await asyncio.gather(*reading, return_exceptions=True)
        if self._folder is not None:
            folder, self._folder = self._folder, None
            await asyncio.to_thread(wait_at_most, _SHUTDOWN_SECONDS, functools.partial(remove, folder))
        self._events = asyncio.Queue()

    async def _start(self, candidate: Candidate) -> Mapping[str, str]:
        """Start the processes. Return the layers that failed. Raises KernelStartError."""
        self.death = None
        folder = self._folder = private_folder("kernel", socket_top())
        for name in ("run", "scratch", "root"):
            (folder / name).mkdir(0o700)
        # If the driver is root, kernel and broker are users of their own. The folder around it stays private.
        (folder / "run").chmod(0o711)
        log = folder / "supervisor.log"
        # While the kernel starts, the broker does, too.
        opening = open_broker(folder / "run", candidate.level)
        try:
            link = self._link = await self._open_link(log)
            reader, self._supervisor = await asyncio.open_connection(sock=link.channel)
            self._reading.append(asyncio.create_task(self._read(reader, "supervisor", _SUPERVISOR_EVENTS)))
            connection = _connection()
            await self._send(
                self._supervisor,
                {
                    "op": "start",
                    "folder": str(folder),
                    "package": kernel_package(candidate.level),
                    "confinement": confinement(candidate, folder, self._limits).to_json(),
                    "connection": {**connection, "ip": str(folder / "run" / _SOCKETS)},
                },
            )
            channel, is_confined = await asyncio.wrap_future(opening)
        except BaseException:
            # A thread cannot be cancelled.
            opening.add_done_callback(_discard)
            raise
        reader, self._broker = await asyncio.open_connection(sock=channel)
        self._reading.append(asyncio.create_task(self._read(reader, "broker", _BROKER_EVENTS)))
        connect = {"op": "connect", "connection": {**connection, "ip": _SOCKETS}, "is_confined": is_confined}
        await self._send(self._broker, connect)
        return await self._wait_for_start(log)

    async def _wait_for_start(self, log: Path) -> Mapping[str, str]:
        waiting = {"confined", "connected"}
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                while waiting:
                    event = await self.event()
                    if event["event"] == "refused":
                        return dict(event["failed"])
                    if event["event"] not in waiting:
                        detail = event.get("complaint") or _last_line(log) or event.get("detail")
                        raise KernelStartError(f"the kernel did not start: {detail}")
                    if event["event"] == "confined":
                        self.isolation = IsolationReport(int(event["level"]), dict(event["layers"]))
                    waiting.discard(event["event"])
        except TimeoutError:
            seconds = self._limits.start_seconds
            raise KernelStartError(f"the kernel did not start: no answer in {seconds:g} s") from None
        return {}

    async def _open_link(self, log: Path) -> SupervisorLink:
        try:
            return await self._supervisors.open(log)
        except SupervisorUnavailable as unavailable:
            if isinstance(self._supervisors, PlainSupervisors):
                raise KernelStartError(f"the kernel did not start: {unavailable}") from unavailable
        try:
            return await PlainSupervisors().open(log)
        except SupervisorUnavailable as unavailable:
            raise KernelStartError(f"the kernel did not start: {unavailable}") from unavailable

    async def _send(self, writer: asyncio.StreamWriter | None, message: Mapping[str, Any]) -> None:
        """Send a message to the supervisor or the broker. Raises KernelDied if it has ended."""
        if writer is None:
            raise KernelDied("the kernel died: it was shut down")
        try:
            writer.write(wire.encode(dict(message)))
            await writer.drain()
        except ConnectionError as error:
            raise KernelDied("the kernel died: its supervisor or broker is gone") from error

    async def _read(self, reader: asyncio.StreamReader, sender: str, events: Collection[str]) -> None:
        """Queue what a process says until it ends. The other process ends then, too."""
        try:
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                message = wire.decode(await reader.readexactly(wire.body_size(header)))
                event = checked_event(message, events)
                if event["event"] == "died":
                    self.death = self.death or f"the kernel died: {event['detail']}"
                if event["event"] == "interrupted":
                    # Only now: a top-level await notices the signal when a message arrives after it.
                    with suppress(KernelDied):
                        await self._send(self._broker, {"op": "wake"})
                elif event["event"] == "ended":
                    self._at_rest.set()
                else:
                    self._queue(event)
                if event["event"] == "result":
                    self._at_rest.clear()
                    # Nothing that the cell left computes on.
                    with suppress(KernelDied):
                        await self._send(self._supervisor, {"op": "end_cell"})
        except (asyncio.IncompleteReadError, ConnectionError):
            if sender == "broker" and self._link is not None and not self._is_closing:
                # Its supervisor would keep the kernel.
                self._link.process.kill()
            self._mark_dead(f"its {sender} ended")
        except wire.WireError as error:
            self.kill_now(ProtocolError(f"the {sender} broke its protocol ({error})"))
            self._mark_dead(f"its {sender} broke the protocol")

    def _queue(self, event: dict[str, Any]) -> None:
        """Queue an event for `event`. Too many unread events break the protocol."""
        if event["event"] == "computing":
            self._computed += event["seconds"]
            return
        if self._events.qsize() >= _MAX_UNREAD_EVENTS:
            raise wire.WireError("too many unread events")
        self._events.put_nowait(event)

    def _mark_dead(self, detail: str) -> None:
        self.death = self.death or f"the kernel died: {detail}"
        self._at_rest.set()
        self._events.put_nowait({"event": "gone", "detail": detail})


class KernelSource(Protocol):
    """Starts kernels and shuts them down."""

    async def acquire(self) -> KernelProcess:
        """Return a started kernel without a context. Raises KernelStartError or SandboxRefused."""

    async def release(self, kernel: KernelProcess) -> None:
        """Shut down a kernel that `acquire` returned. It is not used again."""


class FreshKernels:
    """Starts each kernel on request.

    `level` is the isolation level. "auto" takes the strongest level of at least `minimum` that works on this
    machine, which a probe tests once per process. A number is used without a probe. `supervisors` starts the
    supervisors; the default is the forkserver of this process. If it fails, each one is started as a
    separate program.
    """

    def __init__(
        self,
        limits: KernelLimits | None = None,
        *,
        level: Literal["auto"] | int = "auto",
        minimum: int = 2,
        supervisors: Supervisors | None = None,
    ) -> None:
        self._limits = limits or KernelLimits()
        self._level: Literal["auto"] | int = level
        self._minimum = minimum
        self._supervisors = supervisors or shared_forkserver()

    async def acquire(self) -> KernelProcess:
        possible, refused = await asyncio.to_thread(self._candidates)
        for candidate in possible:
            kernel = KernelProcess(self._limits, self._supervisors)
            try:
                failed = await kernel.start(candidate)
            except KernelStartError as error:
                if candidate == possible[-1]:
                    raise
                # Try the next, weaker candidate.
                refused.setdefault(f"start at level {candidate.level}", str(error))
                continue
            if not failed:
                kernel.isolation = replace(kernel.isolation, failed=refused)
                return kernel
            for layer, reason in failed.items():
                refused.setdefault(layer, reason)
        raise SandboxRefused(refusal(self._level, refused))

    async def release(self, kernel: KernelProcess) -> None:
        await kernel.close()

    def _candidates(self) -> tuple[list[Candidate], dict[str, str]]:
        # Their imports take longer than the probes, which run meanwhile.
        with suppress(SupervisorUnavailable):
            self._supervisors.warm()
        warm_brokers()
        _sweep_once(socket_top())
        return candidates(self._level, self._minimum)


@functools.cache
def _sweep_once(top: Path) -> None:
    """Remove the folders of killed processes, once per process."""
    wait_at_most(_SWEEP_SECONDS, functools.partial(sweep_folders, top))


def _last_line(log: Path) -> str:
    """Return the last line of a broker's log, or "" if there is none. A broker removes its folder when it
    ends, and a hostile one may put anything there."""
    try:
        descriptor = os.open(log, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK | os.O_CLOEXEC)
        with os.fdopen(descriptor, "rb") as file:
            file.seek(max(0, os.fstat(descriptor).st_size - _LOG_BYTES))
            lines = (file.read(_LOG_BYTES) or b"").decode(errors="replace").strip().splitlines()
    except OSError:
        return ""
    return lines[-1] if lines else ""


def _connection() -> dict[str, Any]:
    """Return what Jupyter calls connection info, with a new key and without the place of the sockets."""
    ports = {f"{channel}_port": port for port, channel in enumerate(_CHANNELS, 1)}
    return {
        **ports,
        "transport": "ipc",
        "key": secrets.token_hex(32),
        "signature_scheme": "hmac-sha256",
        "kernel_name": "",
    }


def _discard(opening: Future[tuple[socket.socket, bool]]) -> None:
    """Close a broker that nobody wants any more."""
    if opening.exception() is None:
        opening.result()[0].close()


async def _receive(sock: socket.socket, size: int) -> bytes:
    """Receive exactly `size` bytes, because another reader receives the bytes after them."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(sock, size - len(data))
        if not piece:
            raise EOFError("the kernel closed its end of the helper channel")
        data += piece
    return data
