"""Test the processes that check values and look for quotes: real ones, with hostile requests."""

from __future__ import annotations

import asyncio
import json
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from rlm.answers.checker.pool import CheckerPool
from rlm.answers.checker.process import CheckerProcess, CheckFailed
from rlm.sandbox import ConfinedWorker

SIMPLE = {"kind": "schema", "schema": '{"type": "string"}', "value": '"a"'}
ENDLESS = {"kind": "schema", "schema": '{"pattern": "^(a|a)+$"}', "value": json.dumps("a" * 60 + "b")}
LAUGHS = {
    "kind": "schema",
    "schema": json.dumps(
        {
            "$defs": {f"a{n}": {"allOf": [{"$ref": f"#/$defs/a{n + 1}"}] * 2} for n in range(40)}
            | {"a40": {}},
            "$ref": "#/$defs/a0",
        }
    ),
    "value": "1",
}
GREEDY = {
    "kind": "schema",
    "schema": '{"anyOf": [{"items": {"type": "string"}}]}',
    "value": json.dumps([[1] * 100_000] * 9),
}


@pytest.fixture(scope="module")
def worker() -> Iterator[ConfinedWorker]:
    with ConfinedWorker(memory_mb=1_024) as worker:
        yield worker


@pytest.fixture
def process(worker: ConfinedWorker) -> Iterator[CheckerProcess]:
    process = CheckerProcess(worker)
    yield process
    process.kill()


async def largest_pause(work: Any) -> float:
    """Return the longest time in which the event loop stood still while `work` ran."""
    worst = 0.0
    task = asyncio.ensure_future(work)
    while not task.done():
        began = time.monotonic()
        await asyncio.sleep(0.01)
        worst = max(worst, time.monotonic() - began - 0.01)
    await asyncio.gather(task, return_exceptions=True)
    return worst


async def test_it_answers_one_request_after_another(process: CheckerProcess) -> None:
    assert await process.ask(SIMPLE, None, 5) == {"fault": None}
    wrong = await process.ask({**SIMPLE, "value": "1"}, None, 5)
    assert "does not match" in wrong["fault"]
    assert await process.ask(SIMPLE, None, 5) == {"fault": None}
    assert process.is_alive


async def test_it_reads_the_text_that_it_is_given(process: CheckerProcess, tmp_path: Path) -> None:
    """It has the descriptor, and looks only within the given part of the file."""
    (tmp_path / "text").write_text("secret words. The kettle\nwhistled at seven.")
    with (tmp_path / "text").open("rb") as file:
        request = {"kind": "quotes", "near": [], "start": 14, "size": 28, "computing": 5}
        quotes = [["The kettle whistled", None], ["secret words", None]]
        answer = await process.ask({**request, "quotes": quotes}, file.fileno(), 5)
    assert answer == {"found": [["found", 0, 19], ["missing", -1, -1]]}


@pytest.mark.parametrize("request_", [ENDLESS, LAUGHS], ids=["regular expression", "references"])
async def test_a_check_without_end_is_killed(request_: dict[str, Any]) -> None:
    """The loop stays free meanwhile, and the next check gets a new process."""
    pool = CheckerPool()
    try:
        assert await pool.ask(SIMPLE, seconds=5) == {"fault": None}
        began = time.monotonic()

        async def ask() -> None:
            with pytest.raises(CheckFailed, match=r"not done within 0\.5 s"):
                await pool.ask(request_, seconds=0.5)

        assert await largest_pause(ask()) < 0.5
        assert time.monotonic() - began < 5
        assert pool.size == 0
        assert await pool.ask(SIMPLE, seconds=5) == {"fault": None}
    finally:
        pool.close()


async def test_a_check_that_takes_too_much_memory_fails(process: CheckerProcess) -> None:
    """The process has 1 GB. The driver keeps none of it."""
    answer: dict[str, Any] = {}
    try:
        answer = await process.ask(GREEDY, None, 60)
    except CheckFailed:
        return
    assert "error" in answer or "fault" in answer


async def test_a_cancelled_check_ends_its_process(process: CheckerProcess) -> None:
    """Otherwise the rest of its answer would be taken for the next one."""
    assert await process.ask(SIMPLE, None, 5) == {"fault": None}
    asking = asyncio.ensure_future(process.ask(ENDLESS, None, 60))
    await asyncio.sleep(0.2)
    asking.cancel()
    began = time.monotonic()
    with pytest.raises(asyncio.CancelledError):
        await asking
    assert time.monotonic() - began < 2
    assert not process.is_alive


async def test_a_killed_process_is_replaced() -> None:
    pool = CheckerPool()
    try:
        await pool.ask(SIMPLE, seconds=5)
        pool._worker.close()
        while pool._idle[0].is_alive:
            await asyncio.sleep(0.01)
        assert await pool.ask(SIMPLE, seconds=5) == {"fault": None}
    finally:
        pool.close()


async def test_many_checks_share_few_processes() -> None:
    pool = CheckerPool()
    try:
        answers = await asyncio.gather(*(pool.ask(SIMPLE, seconds=5) for _ in range(50)))
        assert answers == [{"fault": None}] * 50
        assert 1 <= pool.size <= 2
    finally:
        pool.close()


def test_one_pool_serves_several_event_loops() -> None:
    """`run_sync` makes a loop of its own for each call."""
    pool = CheckerPool()
    try:
        for _ in range(3):
            assert asyncio.run(pool.ask(SIMPLE, seconds=5)) == {"fault": None}
        assert pool.size == 1
    finally:
        pool.close()


async def test_it_is_behind_the_walls_of_this_machine(
    process: CheckerProcess, worker: ConfinedWorker
) -> None:
    """What such a job can't do is tested with the worker (`tests/sandbox/worker`)."""
    await process.ask(SIMPLE, None, 5)
    assert worker.level is not None
    assert worker.level >= 1


DRIVER = """
import asyncio, json, sys
from rlm.answers.checker.pool import shared_pool

async def main():
    await shared_pool().ask(json.loads(sys.argv[1]), seconds=5)
    asking = asyncio.ensure_future(shared_pool().ask(json.loads(sys.argv[2]), seconds=3))
    await asyncio.sleep(0.3)
    print(shared_pool()._worker.pid, flush=True)
    await asking

asyncio.run(main())
"""


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGKILL])
def test_a_signal_ends_the_driver_at_once_and_the_process_with_it(number: signal.Signals) -> None:
    """Nothing waits for a check: not the loop, and not the end of asyncio.run."""
    driver = subprocess.Popen(
        [sys.executable, "-c", DRIVER, json.dumps(SIMPLE), json.dumps(ENDLESS)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
    )
    assert driver.stdout is not None
    pid = int(driver.stdout.readline())
    began = time.monotonic()
    driver.send_signal(number)
    driver.wait(10)
    driver.stdout.close()
    assert time.monotonic() - began < 2
    # Without a driver the worker ends, and its jobs with it.
    until = time.monotonic() + 15
    while Path(f"/proc/{pid}").exists() and time.monotonic() < until:
        time.sleep(0.05)
    assert not Path(f"/proc/{pid}").exists()
