"""A sandboxed Jupyter kernel, as the driver holds it.

The driver speaks to two sockets: the broker's channel (cells and their results) and the helper channel
(what a cell asks for). It opens no ZMQ socket and shares no memory with the kernel but the context file.
"""

from __future__ import annotations

import asyncio
import json
import shutil
import socket
import sys
import sysconfig
import tempfile
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any, Literal

from sandbox.bridge import Bridge
from sandbox.context_file import ContextFile
from sandbox.errors import KernelDied, KernelStartError, ProtocolError, SandboxRefused
from sandbox.in_kernel import wire
from sandbox.isolation.advice import refusal
from sandbox.isolation.interpreter import interpreter_paths
from sandbox.isolation.late_seccomp import late_program
from sandbox.isolation.policy import Confinement, IsolationReport
from sandbox.isolation.probe import Candidate, candidates
from sandbox.sandbox import KernelHandler
from sandbox.types import CellReport, CellResult, KernelLimits

__all__ = ["GRACE_SECONDS", "JupyterSandbox", "SandboxLevel"]

SandboxLevel = Literal["auto"] | int

GRACE_SECONDS = 2.0
"""How long an interrupted cell has to stop before its kernel is killed."""

_TICK_SECONDS = 0.25
_SOCKET_BUFFER = 2**20
_MAX_SOCKET_PATH = 90


class JupyterSandbox:
    """One kernel over one context. Implements the Sandbox protocol.

    level is the isolation wanted; "auto" takes the strongest that probes prove (once a process) and that is
    at least `minimum`; another is taken as asked for, without a probe. opened is told, each time, what holds
    the kernel.
    """

    def __init__(
        self,
        context: ContextFile,
        handler: KernelHandler,
        *,
        limits: KernelLimits | None = None,
        level: SandboxLevel = "auto",
        minimum: int = 2,
        opened: Callable[[IsolationReport], None] | None = None,
    ) -> None:
        self._context = context
        self._handler = handler
        self._limits = limits or KernelLimits()
        self._level: SandboxLevel = level
        self._minimum = minimum
        self._opened = opened
        self._bridge: Bridge | None = None
        self._broker: asyncio.subprocess.Process | None = None
        self._folder: Path | None = None
        self._reading: asyncio.Task[None] | None = None
        self._events: asyncio.Queue[dict[str, Any]] = asyncio.Queue()
        self._death: str | None = None
        self._running = False
        self._cells = 0
        self.isolation = IsolationReport(0)

    @property
    def alive(self) -> bool:
        """Whether the next cell can run in this kernel."""
        return self._broker is not None and self._death is None

    async def open(self) -> None:
        ways, refused = await asyncio.to_thread(candidates, self._level, self._minimum)
        for way in ways:
            try:
                answer = await self._start(way)
            except BaseException:
                await self.close()
                raise
            if answer["event"] == "started":
                self.isolation = IsolationReport(int(answer["level"]), dict(answer["layers"]), refused)
                if self._opened is not None:
                    self._opened(self.isolation)
                return
            await self.close()
            if answer["event"] != "refused":
                raise KernelStartError(f"the kernel did not start: {answer.get('detail', 'no reason given')}")
            for layer, reason in answer["failed"].items():
                refused.setdefault(layer, reason)
        raise SandboxRefused(refusal(self._level, refused))

    async def execute(self, code: str, *, round: int, timeout: float) -> CellResult:
        if not self.alive or self._bridge is None:
            raise KernelDied(self._death or "the kernel is not running")
        bridge = self._bridge
        bridge.begin_cell()
        self._cells += 1
        number = self._cells
        await self._tell({"op": "execute", "id": number, "code": code, "round": round})
        self._running = True
        try:
            answer = await self._outcome(number, timeout)
        except asyncio.CancelledError:
            # Whoever cancels closes next; until then the cell must not go on computing.
            await self.interrupt()
            raise
        finally:
            self._running = False
        return _result(answer, bridge.take_report(), bridge.clock.seconds)

    async def interrupt(self) -> None:
        if self.alive and self._running:
            await self._tell({"op": "interrupt"})

    async def close(self) -> None:
        if self._bridge is not None:
            await self._bridge.close()
            self._bridge = None
        if self._broker is not None:
            self._writer.close()
            try:
                await asyncio.wait_for(self._broker.wait(), GRACE_SECONDS)
            except TimeoutError:
                self._broker.kill()
                await self._broker.wait()
            self._broker = None
        if self._reading is not None:
            self._reading.cancel()
            await asyncio.gather(self._reading, return_exceptions=True)
            self._reading = None
        if self._folder is not None:
            shutil.rmtree(self._folder, ignore_errors=True)
            self._folder = None
        self._events = asyncio.Queue()

    async def _start(self, way: Candidate) -> dict[str, Any]:
        self._death = None
        folder = self._folder = Path(tempfile.mkdtemp(prefix="rlm-", dir=_short_folder()))
        for name in ("run", "scratch", "root"):
            (folder / name).mkdir(0o700)
        ours, theirs = socket.socketpair()
        helper_ours, helper_theirs = socket.socketpair()
        for end in (helper_ours, helper_theirs):
            end.setsockopt(socket.SOL_SOCKET, socket.SO_SNDBUF, _SOCKET_BUFFER)
        bridge = self._bridge = Bridge(self._handler, self._context.chars, self._protocol_broken)
        try:
            with (folder / "broker.log").open("ab") as log:
                self._broker = await asyncio.create_subprocess_exec(
                    sys.executable,
                    "-I",
                    "-m",
                    "sandbox.broker",
                    str(theirs.fileno()),
                    stdin=asyncio.subprocess.DEVNULL,
                    stdout=log,
                    stderr=log,
                    env=_clean_environment(folder / "scratch"),
                    pass_fds=(theirs.fileno(), helper_theirs.fileno()),
                    start_new_session=True,
                )
            ours.setblocking(False)
            reader, self._writer = await asyncio.open_connection(sock=ours)
            self._reading = asyncio.get_running_loop().create_task(self._read(reader))
            await bridge.open(helper_ours)
            confinement = self._confinement(way, folder, helper_theirs.fileno())
            await self._tell(
                {
                    "op": "start",
                    "folder": str(folder / "run"),
                    "confinement": confinement.to_json(),
                    "command": self._command(way.level, folder, helper_theirs.fileno()),
                    "start_seconds": self._limits.start_seconds,
                }
            )
        finally:
            theirs.close()
            helper_theirs.close()
        answer = await self._events.get()
        if answer["event"] == "gone":
            said = (folder / "broker.log").read_text(errors="replace").strip().splitlines()
            return {"event": "failed", "detail": said[-1] if said else "the broker ended at once"}
        return answer

    def _confinement(self, way: Candidate, folder: Path, helper_fd: int) -> Confinement:
        inside = way.level >= 2
        read_only = {path: path for path in interpreter_paths()}
        package = str(Path(wire.__file__).resolve().parent)
        context = str(self._context.folder.resolve())
        read_only[package] = "/kernel" if inside else package
        read_only[context] = "/context" if inside else context
        scratch = Path("/scratch") if inside else folder / "scratch"
        run = str(folder / "run")
        return Confinement(
            level=way.level,
            launcher=way.launcher,
            lent=(context,),
            mount_point=str(folder / "root"),
            read_only=read_only,
            writable={run: run},
            hidden=_installed_packages(),
            scratch=str(scratch),
            scratch_mb=self._limits.scratch_mb,
            memory_mb=self._limits.memory_mb,
            body_bytes=self._context.bytes,
            processes=self._limits.processes,
            open_files=self._limits.open_files,
            environment=_clean_environment(scratch),
            keep_fds=(helper_fd,),
        )

    def _command(self, level: int, folder: Path, helper_fd: int) -> list[str]:
        inside = level >= 2
        package = "/kernel" if inside else str(Path(wire.__file__).resolve().parent)
        config = {
            "connection_file": str(folder / "run" / "k.json"),
            "channel_fd": helper_fd,
            "context": "/context" if inside else str(self._context.folder.resolve()),
        }
        if level == 1:
            config["late_filter"] = late_program().hex()
        return [sys.executable, "-I", f"{package}/launch.py", json.dumps(config)]

    async def _outcome(self, number: int, timeout: float) -> dict[str, Any]:
        """The broker's word on a cell, or what we make of its silence."""
        assert self._bridge is not None
        interrupted: float | None = None
        loop = asyncio.get_running_loop()
        while True:
            try:
                event = await asyncio.wait_for(self._events.get(), _TICK_SECONDS)
            except TimeoutError:
                if interrupted is None and self._bridge.clock.seconds > timeout:
                    interrupted = loop.time()
                    await self.interrupt()
                elif interrupted is not None and loop.time() - interrupted > GRACE_SECONDS:
                    await self._kill(f"the cell ran over {timeout:g} s and did not stop when interrupted")
                    return {"status": "timeout", "detail": self._death, "kernel": "killed"}
                continue
            if event["event"] == "result" and event.get("id") == number:
                status = "timeout" if interrupted is not None else "ok" if event["ok"] else "error"
                return {**event, "status": status}
            if event["event"] in ("died", "gone"):
                self._death = self._death or f"the kernel died: {event['detail']}"
                return {"status": "timeout" if interrupted is not None else "died", "detail": self._death}

    async def _kill(self, reason: str) -> None:
        self._death = reason
        with suppress(KernelDied):
            await self._tell({"op": "kill"})

    def _protocol_broken(self, error: ProtocolError) -> None:
        if self._death is None:
            self._death = str(error)
            if self._broker is not None and self._broker.returncode is None:
                # The broker may be as compromised as its kernel: take both. Their children die with them.
                self._broker.kill()

    async def _read(self, reader: asyncio.StreamReader) -> None:
        try:
            while True:
                header = await reader.readexactly(wire.HEADER_SIZE)
                message = wire.decode(await reader.readexactly(wire.body_size(header)))
                if message.get("event") not in ("started", "refused", "failed", "result", "died"):
                    raise wire.WireError("an unknown event")
                self._events.put_nowait(message)
        except (asyncio.IncompleteReadError, ConnectionError):
            self._events.put_nowait({"event": "gone", "detail": "its broker ended"})
        except wire.WireError as error:
            self._protocol_broken(ProtocolError(f"the broker broke its protocol ({error})"))
            self._events.put_nowait({"event": "gone", "detail": "its broker broke the protocol"})

    async def _tell(self, message: Mapping[str, Any]) -> None:
        try:
            self._writer.write(wire.encode(dict(message)))
            await self._writer.drain()
        except ConnectionError as error:
            raise KernelDied("the kernel died: its broker is gone") from error


def _result(answer: Mapping[str, Any], report: CellReport, computed: float) -> CellResult:
    if "detail" in answer:
        return CellResult(
            status=answer["status"],
            ename="KernelDied",
            evalue=str(answer["detail"]),
            seconds=computed,
            report=report,
        )
    stdout = str(answer["stdout"])
    result = answer["result"]
    return CellResult(
        status=answer["status"],
        stdout=stdout,
        stderr=str(answer["stderr"]),
        stdout_chars=max(report.stdout_chars, len(stdout)),
        result=None if result is None else str(result),
        ename=str(answer["ename"]),
        evalue=str(answer["evalue"]),
        traceback=str(answer["traceback"]),
        seconds=float(answer["seconds"]),
        report=report,
    )


def _clean_environment(home: Path) -> dict[str, str]:
    """Nothing of the driver's own environment: that is where keys live."""
    return {
        "PATH": "/usr/bin:/bin",
        "HOME": str(home),
        "TMPDIR": str(home),
        "LANG": "C.UTF-8",
        "IPYTHONDIR": str(home / ".ipython"),
        "JUPYTER_RUNTIME_DIR": str(home / ".jupyter"),
        "JUPYTER_PLATFORM_DIRS": "1",
        "OPENBLAS_NUM_THREADS": "1",
        "MPLBACKEND": "agg",
        # Each arena reserves 64 MB of addresses, which RLIMIT_AS would count.
        "MALLOC_ARENA_MAX": "2",
    }


def _installed_packages() -> tuple[str, ...]:
    """Our own packages where a wheel puts them: a kernel is shown empty folders instead."""
    site = Path(sysconfig.get_path("purelib"))
    return tuple(str(site / name) for name in ("rlm", "sandbox", "prompts") if (site / name).is_dir())


def _short_folder() -> str | None:
    """A place whose paths fit the 107 bytes of a Unix socket's name; None is the system's default."""
    return None if len(tempfile.gettempdir()) < _MAX_SOCKET_PATH - 40 else "/tmp"  # noqa: S108
