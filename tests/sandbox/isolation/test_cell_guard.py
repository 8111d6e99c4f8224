"""Test that a kernel computes only while a cell runs, in real kernels."""

from __future__ import annotations

import asyncio

import pytest

from rlm.sandbox.host.bridge import ComputeClock

LEFT = """
import os, subprocess, threading
count = 0
def burn():
    global count
    while True: count += 1
threading.Thread(target=burn, daemon=True).start()
left = subprocess.Popen(["sleep", "600"], start_new_session=True)
for _ in range(3):
    if not os.fork():
        os.setsid()
        while True: pass
"""


@pytest.mark.parametrize("level", [0, 1, 2])
async def test_what_a_cell_leaves_running_is_stopped(open_kernel, level) -> None:
    """Processes are killed. Threads stand still until the next cell, and go on in it."""
    kernel = await open_kernel(level=level)
    assert (await kernel.execute(LEFT, round=1, timeout=20.0)).status == "ok"
    await asyncio.sleep(0.2)
    processes = "import time; began = time.monotonic(); seen = count; print(left.wait(5))"
    assert (await kernel.execute(processes, round=2, timeout=20.0)).stdout == "-9\n"
    before = await computed(kernel)
    await asyncio.sleep(1.5)
    after = await computed(kernel)
    assert after - before < 0.7, "the kernel computed between two cells"
    moved = await kernel.execute("time.sleep(0.2); print(count > seen)", round=3, timeout=20.0)
    assert moved.stdout == "True\n"


async def computed(kernel) -> float:
    said = await kernel.execute(
        "t = os.times(); print(t.user + t.system + t.children_user + t.children_system)",
        round=4,
        timeout=20.0,
    )
    return float(said.stdout)


async def test_a_late_interrupt_does_not_hit_the_next_cell(open_kernel) -> None:
    kernel = await open_kernel()
    for number in range(3):
        assert (await kernel.execute("1", round=number, timeout=20.0)).result == "1"
        await kernel._kernel.interrupt()
        await asyncio.sleep(0.05)
        slow = await kernel.execute("import time; time.sleep(0.2); 'done'", round=number, timeout=20.0)
        assert (slow.status, slow.result) == ("ok", "'done'")


async def test_computing_counts_while_children_are_in_flight(open_kernel, handler) -> None:
    """A cell cannot buy time for its threads with a child that does not answer."""
    handler.before_answer = lambda: asyncio.sleep(60)
    kernel = await open_kernel()
    code = (
        "import threading\n"
        "def burn():\n    while True: pass\n"
        "threading.Thread(target=burn, daemon=True).start()\n"
        "sub_query('wait', (0, 3))"
    )
    result = await asyncio.wait_for(kernel.execute(code, round=1, timeout=2.0), 30)
    assert result.status == "timeout"


def test_a_clock_is_charged_only_while_it_stands() -> None:
    clock = ComputeClock()
    clock.charge(50)
    assert clock.seconds < 40
    clock.pause()
    clock.charge(50)
    assert clock.seconds > 50
