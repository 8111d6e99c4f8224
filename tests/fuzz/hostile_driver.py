"""A driver that answers one hostile run after another. Run as a program by the fuzz test.

Usage: hostile_driver.py FOLDER TEXT MODEL SEED ACKNOWLEDGE, where ACKNOWLEDGE is a descriptor to which the
event loop writes a byte for each SIGUSR1. With `broker CHANNEL HELPER SEED`, it is a broker and its kernel.
"""

from __future__ import annotations

import asyncio
import os
import random
import signal
import socket
import subprocess
import sys
from concurrent.futures import Future
from contextlib import suppress
from pathlib import Path

sys.path.insert(0, str(Path(__file__).parent))
import hostile_words

LIMITS = {"seconds": 6.0, "cell_seconds": 2.0, "sub_calls": 200, "rounds": 6}
BROKER_RUNS = 0.2


async def runs(folder: Path, text: Path, model: str, rng: random.Random) -> None:
    from rlm import RLM, Limits, Settings
    from rlm.errors import RLMError
    from rlm.sandbox.errors import SandboxError

    while True:
        if rng.random() < BROKER_RUNS:
            await broker_run(folder, rng)
        else:
            settings = Settings(strategy="rlm", sandbox="auto", store=folder / "rlm.db")
            rlm = RLM(model, limits=Limits(**LIMITS), settings=settings)
            try:
                result = await rlm.run("What colour is the grass?", text)
                print("run", result.stop_reason, f"{result.seconds:.1f}", result.sub_calls, flush=True)
            except (RLMError, SandboxError) as error:
                print("run", type(error).__name__, str(error)[:200], flush=True)
            finally:
                await rlm.aclose()
        for file in folder.glob("rlm.db*"):
            file.unlink()


async def honest_run(folder: Path, text: Path) -> None:
    """Import all that a run needs."""
    from rlm import RLM, Settings

    rlm = RLM("extractive", settings=Settings(strategy="rlm", store=folder / "rlm.db"))
    try:
        await rlm.run("What colour is the grass?", text)
    finally:
        await rlm.aclose()


async def broker_run(folder: Path, rng: random.Random) -> None:
    """Run cells in a kernel whose broker is hostile from the first word."""
    from rlm.cli.commands.sandbox import OfflineHandler
    from rlm.sandbox.context.writer import ContextFileWriter
    from rlm.sandbox.errors import SandboxError
    from rlm.sandbox.host import kernel_process
    from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox
    from rlm.sandbox.host.kernel_process import FreshKernels
    from rlm.sandbox.launch.brokers import open_broker
    from rlm.sandbox.types import KernelLimits

    with ContextFileWriter(folder / f"context-{rng.random()}") as writer:
        writer.begin_document("a")
        writer.write("The grass is green.\n" * 1_000)
        context = writer.finish()
    kernels = FreshKernels(KernelLimits(start_seconds=3.0), level=0)
    brokers = HostileBrokers(rng)
    kernel_process.open_broker = brokers.open
    kernel = JupyterSandbox(context, OfflineHandler(context.chars), kernels=kernels)
    outcome = "opened"
    try:
        await kernel.open()
        for number in range(3):
            cell = await kernel.execute("1", round=number, timeout=0.5, deadline=1.0)
            outcome = f"{outcome} {cell.status}"
    except SandboxError as error:
        outcome = f"{outcome} {type(error).__name__} {str(error)[:100]}"
    finally:
        await kernel.close()
        kernel_process.open_broker = open_broker
        brokers.close()
        for file in context.folder.iterdir():
            file.unlink()
        context.folder.rmdir()
    print("broker", outcome, flush=True)


class HostileBrokers:
    """Stands in for `open_broker`: each broker is this file, run as a program."""

    def __init__(self, rng: random.Random) -> None:
        self._rng = rng
        self._started: list[subprocess.Popen[bytes]] = []

    def open(self, folder: Path, level: int) -> Future[tuple[socket.socket, bool]]:
        channel, theirs = socket.socketpair()
        with theirs:
            command = [sys.executable, __file__, "broker", str(theirs.fileno()), str(self._rng.random())]
            self._started.append(subprocess.Popen(command, pass_fds=[theirs.fileno()]))
        opened: Future[tuple[socket.socket, bool]] = Future()
        opened.set_result((channel, False))
        return opened

    def close(self) -> None:
        for process in self._started:
            process.kill()
            process.wait()


def be_a_broker(channel: socket.socket, rng: random.Random) -> None:
    """Send what a taken-over broker could send, and never read more than the first words."""
    from rlm.sandbox.in_kernel import wire

    with suppress(OSError):
        channel.recv(1 << 16)
        if rng.random() < 0.8:
            channel.sendall(wire.encode({"event": "connected"}))
        for _ in range(rng.choice([3, 100, 10_000])):
            channel.sendall(hostile_words.event(rng))
        while channel.recv(1 << 16):
            pass


def main() -> None:
    if sys.argv[1] == "broker":
        be_a_broker(socket.socket(fileno=int(sys.argv[2])), random.Random(sys.argv[3]))
        return
    folder, text, model, seed, acknowledge = sys.argv[1:]
    from rlm.cli.console.interrupts import run_interruptible
    from rlm.models.resolution import resolve

    resolve(model, os.environ).import_client()

    async def watched() -> None:
        loop = asyncio.get_running_loop()

        def answer(*_: object) -> None:
            with suppress(RuntimeError):  # the loop is closed
                loop.call_soon_threadsafe(os.write, int(acknowledge), b".")

        # Importing keeps Python's lock for seconds on a busy machine, and is nothing hostile.
        await honest_run(Path(folder), Path(text))
        signal.signal(signal.SIGUSR1, answer)
        print("ready", flush=True)
        await runs(Path(folder), Path(text), model, random.Random(int(seed)))

    try:
        run_interruptible(watched())
    except KeyboardInterrupt:
        sys.exit(130)


if __name__ == "__main__":
    main()
