"""Test the broker of a running kernel: what it holds, where it lives, and what its end ends."""

from __future__ import annotations

import asyncio
import os
import re
import signal
from pathlib import Path

import pytest

from rlm.sandbox.errors import SandboxRefused
from rlm.sandbox.host.kernel_process import FreshKernels
from rlm.sandbox.isolation.probe import Candidate
from rlm.sandbox.launch import brokers
from rlm.sandbox.types import KernelLimits
from rlm.sandbox.worker.confined_worker import ConfinedWorker

LIBRARIES = (
    "print({line.split()[-1].rsplit('/', 1)[-1]: line.split('-')[0]"
    " for line in reversed(open('/proc/self/maps').readlines()) if '.so' in line})"
)


async def stdout_of(kernel, code: str) -> str:
    result = await kernel.execute(code, round=1, timeout=20)
    assert result.status == "ok", result
    return result.stdout


def children_of(pid: int) -> list[int]:
    found = []
    for child in map(int, Path(f"/proc/{pid}/task/{pid}/children").read_text().split()):
        found += [child, *children_of(child)]
    return found


def broker_processes() -> list[int]:
    """Return the brokers of this process: the jobs of the shared worker."""
    worker = brokers._shared.pid
    assert worker is not None
    below = children_of(worker)
    return [pid for pid in below if len(list(Path(f"/proc/{pid}/task").iterdir())) > 1]


def status(pid: int) -> dict[str, str]:
    return dict(
        line.split(":\t", 1) for line in Path(f"/proc/{pid}/status").read_text().splitlines() if ":\t" in line
    )


@pytest.fixture
async def broker(open_kernel):
    """Yield a kernel with the process of its broker."""
    before = set(broker_processes()) if brokers._shared.pid is not None else set()
    kernel = await open_kernel(level=2)
    (pid,) = set(broker_processes()) - before
    return kernel, pid


async def test_a_broker_has_no_right_no_network_and_no_file(broker) -> None:
    _, pid = broker
    facts = status(pid)
    assert facts["CapEff"] == facts["CapPrm"] == facts["CapBnd"] == "0000000000000000"
    assert (facts["NoNewPrivs"], facts["Seccomp"], facts["Seccomp_filters"]) == ("1", "2", "3")
    if os.getuid() == 0:
        assert "0" not in facts["Uid"].split()
    for namespace in ("user", "mnt", "pid", "net", "ipc", "uts"):
        assert os.readlink(f"/proc/{pid}/ns/{namespace}") != os.readlink(f"/proc/self/ns/{namespace}")
    if os.getuid() != 0:
        # Not even the user who started it can look into it.
        with pytest.raises(PermissionError):
            Path(f"/proc/{pid}/environ").read_bytes()
        return
    assert b"KEY" not in Path(f"/proc/{pid}/environ").read_bytes()
    assert os.readlink(f"/proc/{pid}/cwd") == "/"
    for descriptor in Path(f"/proc/{pid}/fd").iterdir():
        target = os.readlink(descriptor)
        assert re.match(r"socket:|anon_inode:|pipe:|/dev/null|/tmp/.*deleted", target), target
    assert not Path(f"/proc/{pid}/root/etc/passwd").exists()


async def test_every_thread_of_a_broker_is_filtered(broker) -> None:
    _, pid = broker
    threads = list(Path(f"/proc/{pid}/task").iterdir())
    assert len(threads) >= 3
    for thread in threads:
        assert "Seccomp_filters:\t3\n" in (thread / "status").read_text()


async def test_a_kernel_does_not_know_its_brokers_addresses(broker) -> None:
    kernel, pid = broker
    inside = eval(await stdout_of(kernel, LIBRARIES))
    outside = {}
    for line in reversed(Path(f"/proc/{pid}/maps").read_text().splitlines()):
        if ".so" in line:
            outside[line.split()[-1].rsplit("/", 1)[-1]] = line.split("-")[0]
    shared = inside.keys() & outside.keys()
    assert any("zmq" in name for name in shared)
    assert any("libc" in name for name in shared)
    assert not [name for name in shared if inside[name] == outside[name]]


async def test_a_broker_that_is_killed_takes_its_kernel_only(broker, open_kernel) -> None:
    kernel, pid = broker
    other = await open_kernel("another text", level=2)
    os.kill(pid, signal.SIGKILL)
    async with asyncio.timeout(10):
        while kernel.alive:
            await asyncio.sleep(0.01)
    assert "its broker ended" in (kernel._kernel.death or "")
    assert await stdout_of(other, "print(2)") == "2\n"
    assert await stdout_of(await open_kernel("a third", level=2), "print(3)") == "3\n"


async def test_a_kernel_is_refused_where_no_broker_can_be_confined_as_well(monkeypatch) -> None:
    weak = ConfinedWorker(memory_mb=512, ways=[Candidate(1)])
    monkeypatch.setattr(brokers, "_shared", weak)
    try:
        with pytest.raises(SandboxRefused, match="broker"):
            await FreshKernels(KernelLimits(), level=2).acquire()
    finally:
        weak.close()
