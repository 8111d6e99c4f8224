"""Test that `kill -9` of any process of a run, at any moment, leaves no process and no file."""

from __future__ import annotations

import asyncio
import ctypes
import os
import random
import signal
import sys
from contextlib import suppress
from pathlib import Path

import pytest

MOMENTS = int(os.environ.get("RLM_KILLS", "8"))
_AT_ONCE = 8
"""Drivers that run at once. More would only wait for each other."""
_PR_SET_CHILD_SUBREAPER = 36
_DRIVER = """
import asyncio, sys
from pathlib import Path
from rlm.sandbox.context.writer import ContextFileWriter
from rlm.sandbox.errors import SandboxError
from rlm.sandbox.host.jupyter_sandbox import JupyterSandbox

ESCAPES = "import os, time\\nif os.fork() == 0: os.setsid(); time.sleep(300)\\ntime.sleep(0.1)"

async def main():
    with ContextFileWriter(Path(sys.argv[1]) / "context") as writer:
        writer.begin_document("t"); writer.write("text")
        context = writer.finish()
    print("begun", flush=True)
    for _ in range(3):
        kernel = JupyterSandbox(context, None, level=int(sys.argv[2]), minimum=0)
        try:
            await kernel.open()
            for number in range(3):
                await kernel.execute(ESCAPES, round=number, timeout=2)
        except SandboxError as error:
            print(error)
        finally:
            await kernel.close()

asyncio.run(main())
"""


def children(pid: int) -> list[int]:
    with suppress(OSError):
        return [
            int(child)
            for thread in Path(f"/proc/{pid}/task").iterdir()
            for child in (thread / "children").read_text().split()
        ]
    return []


def living(pid: int) -> set[int]:
    """Return the living descendants of a process."""
    found = set()
    for child in children(pid):
        found |= living(child)
        with suppress(OSError):
            if Path(f"/proc/{child}/stat").read_text().rpartition(")")[2].split()[0] != "Z":
                found.add(child)
    return found


def victims(driver: int) -> list[int]:
    """Return the driver and one process of each generation below it: forkserver, watcher, kernel."""
    line = [driver]
    while below := children(line[-1]):
        line.append(below[0])
    return line


@pytest.fixture
def adopted():
    """Adopt the orphans of a killed driver, so that none is missed."""
    prctl = ctypes.CDLL(None).prctl
    prctl(_PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    yield
    prctl(_PR_SET_CHILD_SUBREAPER, 0, 0, 0, 0)


async def test_a_kill_at_any_moment_leaves_nothing(tmp_path, adopted) -> None:
    rng = random.Random(1)
    before = living(os.getpid())

    async def one(number: int) -> None:
        temp = tmp_path / str(number) / "temp"
        temp.mkdir(parents=True)
        level, seconds, generation = rng.choice([0, 1, 2]), rng.uniform(0.0, 3.0), number % 5
        driver = await asyncio.create_subprocess_exec(
            *(sys.executable, "-c", _DRIVER, str(temp.parent), str(level)),
            stdout=asyncio.subprocess.PIPE,
            env={"PATH": "/usr/bin:/bin", "HOME": str(temp.parent), "TMPDIR": str(temp)},
        )
        assert driver.stdout is not None
        await driver.stdout.readline()
        await asyncio.sleep(seconds)
        line = victims(driver.pid)
        with suppress(ProcessLookupError):
            os.kill(line[min(generation, len(line) - 1)], signal.SIGKILL)
        # A driver that lives ends by itself: its kernel died, or it has another forkserver.
        await asyncio.wait_for(driver.wait(), 60)
        async with asyncio.timeout(20):
            while list(temp.iterdir()):
                await asyncio.sleep(0.05)

    at_once = asyncio.Semaphore(_AT_ONCE)

    async def in_turn(number: int) -> None:
        async with at_once:
            await one(number)

    await asyncio.gather(*map(in_turn, range(MOMENTS)))
    async with asyncio.timeout(20):
        while living(os.getpid()) - before:
            with suppress(ChildProcessError):
                os.waitpid(-1, os.WNOHANG)
            await asyncio.sleep(0.05)
