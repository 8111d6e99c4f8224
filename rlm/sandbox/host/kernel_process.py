"""One kernel process: its folder, its watcher, its cells and its helper channel.

A kernel serves one context and is then shut down, so that no data of one context reaches another.
"""

from __future__ import annotations

import asyncio
import functools
import os
import socket
import tempfile
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelDied, KernelStartError, SandboxRefused
from rlm.sandbox.folders import private_folder, remove, sweep_folders, wait_at_most
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.registry import Helper
from rlm.sandbox.isolation.advice import refusal
from rlm.sandbox.isolation.layers import rlimits
from rlm.sandbox.isolation.policy import Candidate, IsolationReport
from rlm.sandbox.isolation.views import confinement, kernel_package
from rlm.sandbox.launch.forkserver import Forkserver, ForkserverFailed, WatcherLink, shared_forkserver
from rlm.sandbox.launch.probe import candidates
from rlm.sandbox.types import KernelLimits, Span

__all__ = ["FreshKernels", "KernelProcess", "KernelSource"]

_SHUTDOWN_SECONDS = 2.0
_DEAD_KERNEL_SECONDS = 0.5
_SWEEP_SECONDS = 5.0
_LOG_BYTES = 10_000


class KernelProcess:
    """One kernel from start to end. Call `start`, then `attach` once, then `execute` for each cell."""

    def __init__(self, limits: KernelLimits, forkserver: Forkserver) -> None:
        self._limits = limits
        self._forkserver = forkserver
        self._link: WatcherLink | None = None
        self._watcher: asyncio.StreamWriter | None = None
        self._folder: Path | None = None
        self._reading: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._closing = asyncio.Lock()
        self._is_ready = False
        self._is_helper_attached = False
        self._computed = 0.0
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
        await self._send({"op": "execute", "id": number, "code": code, "round": round_})

    async def interrupt(self) -> None:
        """Interrupt the running cell as Ctrl-C does. Raises KernelDied."""
        await self._send({"op": "interrupt"})

    async def event(self) -> dict[str, Any]:
        """Return the next event from the watcher. Cancelling the wait loses no event."""
        return await self._events.get()

    def take_computed(self) -> float:
        """Return the seconds that the kernel has computed since the last call, by its watcher's report."""
        computed, self._computed = self._computed, 0.0
        return computed

    def kill(self, reason: str) -> None:
        """Have the kernel killed at once. The first reason counts."""
        if self.death is None:
            self.death = reason
            if self._watcher is not None:
                # The watcher ends with its channel, and the kernel with the watcher.
                self._watcher.transport.abort()

    async def close(self) -> None:
        """Shut down the kernel with every process that it started. Removes its files. Safe to call twice."""
        # Shielded: if the caller is cancelled, the shutdown still completes.
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        # A pool and the sandbox that uses the kernel may close it at the same time.
        async with self._closing:
            await self._end()

    async def _end(self) -> None:
        # Closing the watcher's channel asks it to end: it kills the kernel, removes its files and exits. A
        # watcher that takes long (a cell has left a million files, or a thousand processes) goes on in the
        # background. Only one that has no kernel yet is killed. The folder is removed last, when no process
        # can write to it. That has a time limit, too: the rest is removed in the background.
        if self._link is not None:
            link, self._link = self._link, None
            if self._watcher is not None:
                self._watcher.transport.abort()
                self._watcher = None
            else:
                link.channel.close()
            if not self._is_helper_attached:
                link.helper.close()
            try:
                seconds = _SHUTDOWN_SECONDS if self.death is None else _DEAD_KERNEL_SECONDS
                await asyncio.wait_for(link.wait(), seconds)
            except TimeoutError:
                if not self._is_ready:
                    link.kill()
            os.close(link.pidfd)
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        if self._folder is not None:
            folder, self._folder = self._folder, None
            await asyncio.to_thread(wait_at_most, _SHUTDOWN_SECONDS, functools.partial(remove, folder))
        self._events = asyncio.Queue()

    async def _start(self, candidate: Candidate) -> Mapping[str, str]:
        """Start the processes. Return the layers that failed. Raises KernelStartError."""
        self.death = None
        folder = self._folder = private_folder("kernel")
        with tempfile.TemporaryFile() as log:
            link = self._link = await self._open_link(log.fileno())
            reader, self._watcher = await asyncio.open_connection(sock=link.channel)
            self._reading = asyncio.create_task(self._read(reader))
            await self._send(
                {
                    "folder": str(folder),
                    "package": kernel_package(candidate.level),
                    "confinement": confinement(candidate, folder, self._limits).to_json(),
                }
            )
            return await self._wait_for_start(log.fileno())

    async def _wait_for_start(self, log: int) -> Mapping[str, str]:
        seconds = self._limits.start_seconds
        try:
            event = await asyncio.wait_for(self.event(), seconds)
        except TimeoutError:
            raise KernelStartError(f"the kernel did not start: no answer in {seconds:g} s") from None
        if event["event"] == "refused":
            return dict(event["failed"])
        if event["event"] != "ready":
            said = os.pread(log, _LOG_BYTES, max(0, os.fstat(log).st_size - _LOG_BYTES))
            lines = said.decode(errors="replace").strip().splitlines()
            raise KernelStartError(f"the kernel did not start: {lines[-1] if lines else event['detail']}")
        self._is_ready = True
        self.isolation = IsolationReport(event["level"], event["layers"])
        return {}

    async def _open_link(self, log: int) -> WatcherLink:
        try:
            return await self._forkserver.open(log)
        except ForkserverFailed:
            # It may have died since the last kernel.
            try:
                return await self._forkserver.open(log)
            except ForkserverFailed as error:
                raise KernelStartError(f"the kernel did not start: {error}") from error

    async def _send(self, message: Mapping[str, Any]) -> None:
        """Send a message to the watcher. Raises KernelDied if it has ended."""
        if self._watcher is None:
            raise KernelDied("the kernel died: it was shut down")
        try:
            self._watcher.write(wire.encode(dict(message)))
            await self._watcher.drain()
        except ConnectionError as error:
            raise KernelDied("the kernel died: its watcher is gone") from error

    async def _read(self, reader: asyncio.StreamReader) -> None:
        """Queue what the watcher says until it ends. It passes on nothing of the kernel's that it has not
        checked."""
        with suppress(asyncio.IncompleteReadError, ConnectionError):
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                event = wire.decode(await reader.readexactly(wire.body_size(header)))
                if event["event"] == "computing":
                    self._computed += event["seconds"]
                    continue
                if event["event"] == "died":
                    self.death = self.death or f"the kernel died: {event['detail']}"
                self._events.put_nowait(event)
        self.death = self.death or "the kernel died: its watcher ended"
        self._events.put_nowait({"event": "died", "detail": self.death})


class KernelSource(Protocol):
    """Starts kernels and shuts them down."""

    async def acquire(self) -> KernelProcess:
        """Return a started kernel without a context. Raises KernelStartError or SandboxRefused."""

    async def release(self, kernel: KernelProcess) -> None:
        """Shut down a kernel that `acquire` returned. It is not used again."""


class FreshKernels:
    """Starts each kernel on request.

    `level` is the isolation level. "auto" takes the strongest level of at least `minimum` that works on this
    machine, as probes have proved. A number is used without a probe. `forkserver` starts the processes; the
    default is the one of this process.
    """

    def __init__(
        self,
        limits: KernelLimits | None = None,
        *,
        level: Literal["auto"] | int = "auto",
        minimum: int = 2,
        forkserver: Forkserver | None = None,
    ) -> None:
        self._limits = limits or KernelLimits()
        self._level: Literal["auto"] | int = level
        self._minimum = minimum
        self._forkserver = forkserver or shared_forkserver()

    async def acquire(self) -> KernelProcess:
        possible, refused = await asyncio.to_thread(self._candidates)
        for candidate in possible:
            kernel = KernelProcess(self._limits, self._forkserver)
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
        # Its imports take longer than the probes, which run meanwhile.
        with suppress(ForkserverFailed):
            self._forkserver.warm()
        _sweep_once(tempfile.gettempdir())
        return candidates(self._level, self._minimum)


@functools.cache
def _sweep_once(top: str) -> None:
    """Remove the folders of killed processes, once per process."""
    wait_at_most(_SWEEP_SECONDS, functools.partial(sweep_folders, Path(top)))


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
