"""One kernel process: its folder, its broker and its sockets.

A kernel serves one context and is then shut down, so that no data of one context reaches another.
"""

from __future__ import annotations

import asyncio
import functools
import socket
from collections.abc import Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import replace
from pathlib import Path
from typing import Any, Literal, Protocol

from rlm.sandbox.context.writer import ContextFile
from rlm.sandbox.errors import KernelDied, KernelStartError, ProtocolError, SandboxRefused
from rlm.sandbox.folders.private_folder import private_folder, socket_top, sweep_folders
from rlm.sandbox.folders.removal import remove, wait_at_most
from rlm.sandbox.forkserver.client import shared_forkserver
from rlm.sandbox.in_kernel import wire
from rlm.sandbox.in_kernel.body.body import BODY_NAME, INDEX_NAME, MANIFEST_NAME
from rlm.sandbox.in_kernel.helper_api.registry import Helper
from rlm.sandbox.isolation import rlimits
from rlm.sandbox.isolation.advice import refusal
from rlm.sandbox.isolation.policy import IsolationReport
from rlm.sandbox.isolation.probe import Candidate, candidates
from rlm.sandbox.launch.broker_process import BrokerLink, Brokers, BrokerUnavailable, PlainBrokers
from rlm.sandbox.launch.kernel_view import confinement, kernel_package
from rlm.sandbox.types import KernelLimits, Span

__all__ = ["FreshKernels", "KernelProcess", "KernelSource"]

_SHUTDOWN_SECONDS = 2.0
_DEAD_BROKER_SECONDS = 0.5
_SWEEP_SECONDS = 5.0
_START_GRACE_SECONDS = 15.0
_MAX_UNREAD_EVENTS = 32
_EVENTS = ("started", "refused", "failed", "result", "died", "computing")
_MAX_COMPUTED = 3_600.0
"""Seconds of computing that one report may hold. More is no honest number."""


class KernelProcess:
    """One kernel from start to end. Call `start`, then `attach` once, then `send` and `event` for cells."""

    def __init__(self, limits: KernelLimits, brokers: Brokers) -> None:
        self._limits = limits
        self._brokers = brokers
        self._link: BrokerLink | None = None
        self._folder: Path | None = None
        self._reading: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._closing = asyncio.Lock()
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
            answer = await self._start(candidate)
        except BaseException:
            await self.close()
            raise
        if answer["event"] == "started":
            self.isolation = IsolationReport(int(answer["level"]), dict(answer["layers"]))
            return {}
        await self.close()
        if answer["event"] != "refused":
            raise KernelStartError(f"the kernel did not start: {answer.get('detail', 'no reason given')}")
        return dict(answer["failed"])

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
        before each cell it asks which part of the body the question covers. Raises KernelStartError.
        """
        assert self._link is not None
        helper_socket = self._link.helper
        limit = rlimits.address_bytes(
            memory_mb=self._limits.memory_mb, body_bytes=context.bytes + context.table_bytes
        )
        with ExitStack() as stack:
            try:
                names = (BODY_NAME, INDEX_NAME, MANIFEST_NAME)
                files = [stack.enter_context((context.folder / name).open("rb")) for name in names]
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

    async def send(self, message: Mapping[str, Any]) -> None:
        """Send a message to the broker. Raises KernelDied if the broker has ended."""
        try:
            self._writer.write(wire.encode(dict(message)))
            await self._writer.drain()
        except ConnectionError as error:
            raise KernelDied("the kernel died: its broker is gone") from error

    async def event(self) -> dict[str, Any]:
        """Return the next event from the broker. Cancelling the wait loses no event."""
        return await self._events.get()

    def take_computed(self) -> float:
        """Return the seconds that the kernel has computed since the last call, as its broker reports them."""
        computed, self._computed = self._computed, 0.0
        return computed

    async def kill(self, reason: str) -> None:
        """Tell the broker to kill the kernel. Marks it as dead at once."""
        self.death = reason
        with suppress(KernelDied):
            await self.send({"op": "kill"})

    def kill_now(self, error: ProtocolError) -> None:
        """Kill the broker and the kernel at once, because both may be compromised."""
        if self.death is None:
            self.death = str(error)
            if self._link is not None:
                self._link.process.kill()

    async def close(self) -> None:
        """Shut down the kernel with every process that it started. Removes its files. Safe to call twice."""
        # Shielded: if the caller is cancelled, the shutdown still completes.
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        # A pool and the sandbox that uses the kernel may close it at the same time.
        async with self._closing:
            await self._end()

    async def _end(self) -> None:
        # The order matters. Closing our end of the channel asks the broker to stop: it kills the kernel,
        # removes its files and exits. A broker that does not exit in time is killed; the launcher dies with
        # its parent, and the kernel with the launcher. The folder is removed last, when no process can write
        # to it. The removal has a time limit, because a cell may have made a million files: the rest is
        # removed in the background.
        if self._link is not None:
            link = self._link
            # If no reader task was started, only the raw socket must be closed.
            if self._reading is not None:
                self._writer.close()
            else:
                link.channel.close()
            if not self._is_helper_attached:
                link.helper.close()
            try:
                # The broker of a dead kernel may be stuck with the flood of messages that the kernel left.
                await asyncio.wait_for(
                    link.process.wait(), _SHUTDOWN_SECONDS if self.death is None else _DEAD_BROKER_SECONDS
                )
            except TimeoutError:
                link.process.kill()
                await link.process.wait()
            self._link = None
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        if self._folder is not None:
            folder, self._folder = self._folder, None
            await asyncio.to_thread(wait_at_most, _SHUTDOWN_SECONDS, functools.partial(remove, folder))
        self._events = asyncio.Queue()

    async def _start(self, candidate: Candidate) -> dict[str, Any]:
        self.death = None
        folder = self._folder = private_folder("kernel", socket_top())
        for name in ("run", "scratch", "root"):
            (folder / name).mkdir(0o700)
        log = folder / "broker.log"
        link = self._link = await self._open_link(log)
        reader, self._writer = await asyncio.open_connection(sock=link.channel)
        self._reading = asyncio.get_running_loop().create_task(self._read(reader))
        await self.send(
            {
                "op": "start",
                "folder": str(folder),
                "package": kernel_package(candidate.level),
                "confinement": confinement(candidate, folder, self._limits).to_json(),
                "start_seconds": self._limits.start_seconds,
            }
        )
        try:
            # The broker has its own timeout. This one applies if the broker itself was stopped (SIGSTOP).
            answer = await asyncio.wait_for(self.event(), self._limits.start_seconds + _START_GRACE_SECONDS)
        except TimeoutError:
            raise KernelStartError("the kernel did not start: its broker did not answer") from None
        if answer["event"] in ("gone", "died"):
            log_lines = log.read_text(errors="replace").strip().splitlines()
            return {"event": "failed", "detail": log_lines[-1] if log_lines else answer["detail"]}
        return answer

    async def _open_link(self, log: Path) -> BrokerLink:
        try:
            return await self._brokers.open(log)
        except BrokerUnavailable as unavailable:
            if isinstance(self._brokers, PlainBrokers):
                raise KernelStartError(f"the kernel did not start: {unavailable}") from unavailable
        try:
            return await PlainBrokers().open(log)
        except BrokerUnavailable as unavailable:
            raise KernelStartError(f"the kernel did not start: {unavailable}") from unavailable

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                message = wire.decode(await reader.readexactly(wire.body_size(header)))
                if message.get("event") not in _EVENTS:
                    raise wire.WireError("an unknown event")
                if message["event"] == "died":
                    self.death = self.death or f"the kernel died: {message.get('detail')}"
                self._queue(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._mark_dead("its broker ended")
        except wire.WireError as error:
            self.kill_now(ProtocolError(f"the broker broke its protocol ({error})"))
            self._mark_dead("its broker broke the protocol")

    def _queue(self, message: dict[str, Any]) -> None:
        """Queue an event for `event`. A broker may be as hostile as its kernel: malformed results and
        too many unread events break the protocol."""
        if message["event"] == "result" and not _is_result(message):
            raise wire.WireError("a malformed result")
        if message["event"] == "computing":
            self._computed += _computed_seconds(message)
            return
        if self._events.qsize() >= _MAX_UNREAD_EVENTS:
            raise wire.WireError("too many unread events")
        self._events.put_nowait(message)

    def _mark_dead(self, detail: str) -> None:
        self.death = self.death or f"the kernel died: {detail}"
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
    machine, which a probe tests once per process. A number is used without a probe. `brokers` starts the
    brokers; the default is the forkserver of this process. If it fails, each broker is started as a separate
    program.
    """

    def __init__(
        self,
        limits: KernelLimits | None = None,
        *,
        level: Literal["auto"] | int = "auto",
        minimum: int = 2,
        brokers: Brokers | None = None,
    ) -> None:
        self._limits = limits or KernelLimits()
        self._level: Literal["auto"] | int = level
        self._minimum = minimum
        self._brokers = brokers or shared_forkserver()

    async def acquire(self) -> KernelProcess:
        possible, refused = await asyncio.to_thread(self._candidates)
        for candidate in possible:
            kernel = KernelProcess(self._limits, self._brokers)
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
        _sweep_once(socket_top())
        return candidates(self._level, self._minimum)


@functools.cache
def _sweep_once(top: Path) -> None:
    """Remove the folders of killed processes, once per process."""
    wait_at_most(_SWEEP_SECONDS, functools.partial(sweep_folders, top))


def _is_result(message: Mapping[str, Any]) -> bool:
    return (
        isinstance(message.get("id"), int)
        and isinstance(message.get("ok"), bool)
        and isinstance(message.get("seconds"), int | float)
        and isinstance(message.get("result"), str | None)
        and all(
            isinstance(message.get(name), str)
            for name in ("stdout", "stderr", "ename", "evalue", "traceback")
        )
    )


def _computed_seconds(message: Mapping[str, Any]) -> float:
    seconds = message.get("seconds")
    if not isinstance(seconds, int | float) or not 0 <= seconds <= _MAX_COMPUTED:
        raise wire.WireError("a malformed report of computing")
    return float(seconds)


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
