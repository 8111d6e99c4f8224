"""Test the clock of a cell."""

from __future__ import annotations

import asyncio

from rlm.sandbox.host.compute_clock import ComputeClock, serve_with, waiting


def test_a_compute_clock_stands_still_while_paused(monkeypatch) -> None:
    now = [100.0]
    monkeypatch.setattr("time.monotonic", lambda: now[0])
    clock = ComputeClock()
    now[0] = 103.0
    clock.pause()
    clock.pause()
    now[0] = 150.0
    clock.resume()
    assert clock.seconds == 3.0
    clock.resume()
    now[0] = 151.0
    assert clock.seconds == 4.0


async def test_the_tasks_of_a_call_pause_the_clock_of_its_cell() -> None:
    """A wait outside of any call pauses nothing."""
    clock = ComputeClock()

    async def wait() -> float:
        with waiting():
            before = clock.seconds
            await asyncio.sleep(0.01)
            return clock.seconds - before

    async def call() -> float:
        serve_with(clock)
        return await asyncio.ensure_future(wait())

    assert await wait() > 0
    assert await asyncio.ensure_future(call()) == 0
    before = clock.seconds
    await asyncio.sleep(0.01)
    assert clock.seconds > before
