"""A started kernel that has no context yet, or has just been given one: its folder, its broker, its sockets.

A kernel serves one context and ends with it: nothing a cell has left behind can meet another text.
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

_END_SECONDS = 2.0
_DEAD_SECONDS = 0.5
_SWEEP_SECONDS = 5.0
_ANSWER_SECONDS = 15.0
_MAX_EVENTS = 32
_EVENTS = ("started", "refused", "failed", "result", "died")


class KernelProcess:
    """One kernel from start to end. `start`, then `attach` once, then cells by `tell` and `event`."""

    def __init__(self, limits: KernelLimits, brokers: Brokers) -> None:
        self._limits = limits
        self._brokers = brokers
        self._link: BrokerLink | None = None
        self._folder: Path | None = None
        self._reading: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._closing = asyncio.Lock()
        self._helper_given = False
        self.death: str | None = None
        self.isolation = IsolationReport(0)

    @property
    def alive(self) -> bool:
        """Whether it runs, as far as is known."""
        return self._link is not None and self.death is None

    async def start(self, way: Candidate) -> Mapping[str, str]:
        """Start, held in that way. Gives the layers that can't be had, with the machine's reasons: none when
        it runs. Otherwise, and when KernelStartError is raised, it has cleaned up."""
        try:
            answer = await self._start(way)
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
        """Give the kernel its context, as open files: it needs no path of the host's; and what its random
        numbers begin with, if not with chance. `window` is all of the body that its handle knows of;
        `tools` are what the host offers beside the helpers; `shared` is a kernel that asks before each cell
        what of the body its question is about. The helper channel, ready for calls; it is the
        caller's from here on. Raises KernelStartError."""
        assert self._link is not None
        helper = self._link.helper
        limit = rlimits.address_bytes(
            memory_mb=self._limits.memory_mb, body_bytes=context.bytes + context.table_bytes
        )
        with ExitStack() as stack:
            try:
                names = (BODY_NAME, INDEX_NAME, MANIFEST_NAME)
                files = [stack.enter_context((context.folder / name).open("rb")) for name in names]
            except OSError as error:
                raise KernelStartError(f"the context could not be handed over: {error}") from error
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
                sent = socket.send_fds(helper, [message], [file.fileno() for file in files])
                await asyncio.get_running_loop().sock_sendall(helper, message[sent:])
            except OSError as error:
                raise KernelStartError(f"the kernel ended before it had its context ({error})") from error
        try:
            async with asyncio.timeout(self._limits.start_seconds):
                header = await _receive(helper, wire.HEADER_SIZE)
                answer = wire.decode(await _receive(helper, wire.body_size(header)))
        except TimeoutError:
            raise KernelStartError("the kernel gave no answer when it was given its context") from None
        except (OSError, EOFError, wire.WireError) as error:
            raise KernelStartError(f"the kernel ended before it had its context ({error})") from error
        if answer.get("attached") is not True:
            raise KernelStartError(f"the kernel could not read its context: {answer.get('detail')}")
        if self.death is not None:
            raise KernelStartError(f"the kernel ended before it had its context ({self.death})")
        self._helper_given = True
        return helper

    async def tell(self, message: Mapping[str, Any]) -> None:
        """Send the broker a message. Raises KernelDied when it is gone."""
        try:
            self._writer.write(wire.encode(dict(message)))
            await self._writer.drain()
        except ConnectionError as error:
            raise KernelDied("the kernel died: its broker is gone") from error

    async def event(self) -> dict[str, Any]:
        """The broker's next word. Nothing is lost when the caller stops waiting."""
        return await self._events.get()

    async def kill(self, reason: str) -> None:
        """Have the broker kill the kernel, which is dead from here on."""
        self.death = reason
        with suppress(KernelDied):
            await self.tell({"op": "kill"})

    def condemn(self, error: ProtocolError) -> None:
        """End broker and kernel at once: the one may be as compromised as the other."""
        if self.death is None:
            self.death = str(error)
            if self._link is not None:
                self._link.process.kill()

    async def close(self) -> None:
        """End the kernel, all that it started and every file that it made. Safe to call twice."""
        # Whoever is cancelled while it closes leaves nothing behind: the end goes on without it.
        await asyncio.shield(asyncio.ensure_future(self._close()))

    async def _close(self) -> None:
        # A pool may be closed while the one who uses the kernel closes it, too.
        async with self._closing:
            await self._end()

    async def _end(self) -> None:
        if self._link is not None:
            link = self._link
            # Its end of the channel closes with ours; without a reader task ours is still a bare socket.
            if self._reading is not None:
                self._writer.close()
            else:
                link.channel.close()
            if not self._helper_given:
                link.helper.close()
            try:
                # A dead kernel's broker may be as good as dead, too: kept busy by what that has left it.
                await asyncio.wait_for(
                    link.process.wait(), _END_SECONDS if self.death is None else _DEAD_SECONDS
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
            await asyncio.to_thread(wait_at_most, _END_SECONDS, functools.partial(remove, folder))
        self._events = asyncio.Queue()

    async def _start(self, way: Candidate) -> dict[str, Any]:
        self.death = None
        folder = self._folder = private_folder("kernel", socket_top())
        for name in ("run", "scratch", "root"):
            (folder / name).mkdir(0o700)
        log = folder / "broker.log"
        link = self._link = await self._open_link(log)
        reader, self._writer = await asyncio.open_connection(sock=link.channel)
        self._reading = asyncio.get_running_loop().create_task(self._read(reader))
        await self.tell(
            {
                "op": "start",
                "folder": str(folder),
                "package": kernel_package(way.level),
                "confinement": confinement(way, folder, self._limits).to_json(),
                "start_seconds": self._limits.start_seconds,
            }
        )
        try:
            # The broker has a deadline of its own: this one is for a broker that was stopped.
            answer = await asyncio.wait_for(self.event(), self._limits.start_seconds + _ANSWER_SECONDS)
        except TimeoutError:
            raise KernelStartError("the kernel did not start: its broker gave no answer") from None
        if answer["event"] in ("gone", "died"):
            said = log.read_text(errors="replace").strip().splitlines()
            return {"event": "failed", "detail": said[-1] if said else answer["detail"]}
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
                self._take(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._gone("its broker ended")
        except wire.WireError as error:
            self.condemn(ProtocolError(f"the broker broke its protocol ({error})"))
            self._gone("its broker broke the protocol")

    def _take(self, message: dict[str, Any]) -> None:
        """Keep a word for whoever waits. A broker may be as hostile as its kernel: what is no result, or
        comes though nobody asked, breaks the protocol."""
        if message["event"] == "result" and not _is_result(message):
            raise wire.WireError("a result that is none")
        if self._events.qsize() >= _MAX_EVENTS:
            raise wire.WireError("more words than anybody asked for")
        self._events.put_nowait(message)

    def _gone(self, detail: str) -> None:
        self.death = self.death or f"the kernel died: {detail}"
        self._events.put_nowait({"event": "gone", "detail": detail})


class KernelSource(Protocol):
    """Where kernels come from, and how they are held."""

    async def acquire(self) -> KernelProcess:
        """A started kernel without a context. Raises KernelStartError or SandboxRefused."""

    async def release(self, kernel: KernelProcess) -> None:
        """End a kernel that `take` gave; it is not used again."""


class FreshKernels:
    """Starts each kernel when it is asked for.

    level is the isolation wanted; "auto" takes the strongest that probes prove (once a process) and that is
    at least `minimum`; another is taken as asked for, without a probe. `brokers` is how they are started; the
    default is the forkserver of this process. Where that fails, each broker is started as a program of its
    own.
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
        ways, refused = await asyncio.to_thread(self._ways)
        for way in ways:
            kernel = KernelProcess(self._limits, self._brokers)
            try:
                failed = await kernel.start(way)
            except KernelStartError as error:
                if way == ways[-1]:
                    raise
                # A weaker way that is acceptable too may yet start.
                refused.setdefault(f"start at level {way.level}", str(error))
                continue
            if not failed:
                kernel.isolation = replace(kernel.isolation, failed=refused)
                return kernel
            for layer, reason in failed.items():
                refused.setdefault(layer, reason)
        raise SandboxRefused(refusal(self._level, refused))

    async def release(self, kernel: KernelProcess) -> None:
        await kernel.close()

    def _ways(self) -> tuple[list[Candidate], dict[str, str]]:
        _sweep_once(socket_top())
        return candidates(self._level, self._minimum)


@functools.cache
def _sweep_once(top: Path) -> None:
    """Whoever starts kernels removes what killed ones before left of theirs: once, it takes a while."""
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


async def _receive(sock: socket.socket, size: int) -> bytes:
    """Exactly `size` bytes: what follows belongs to another reader."""
    loop = asyncio.get_running_loop()
    data = b""
    while len(data) < size:
        piece = await loop.sock_recv(sock, size - len(data))
        if not piece:
            raise EOFError("its end of the helper channel is closed")
        data += piece
    return data
