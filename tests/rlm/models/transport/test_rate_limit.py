"""Test the limiter of a provider."""

from __future__ import annotations

import asyncio
import time

from hypothesis import given
from hypothesis import strategies as st

from rlm.models.base import Message, Request
from rlm.models.http.rate_limit import Limiter
from rlm.models.options import RetryPolicy

REQUEST = Request("child", (Message("user", "hello"),), 100, "task")


async def _most_at_once(limiter: Limiter, count: int) -> int:
    """Return how many of `count` tasks hold a slot at the same time."""
    holding = most = 0

    async def use() -> None:
        nonlocal holding, most
        async with limiter.slot():
            holding += 1
            most = max(most, holding)
            await asyncio.sleep(0)
            holding -= 1

    await asyncio.gather(*(use() for _ in range(count)))
    return most


async def test_concurrent_refusals_halve_it_once():
    limiter = Limiter(16)

    async def use_slowly() -> None:
        async with limiter.slot() as began:
            await asyncio.sleep(0.01)
            limiter.slow_down(began)

    await asyncio.gather(*(use_slowly() for _ in range(16)))
    assert limiter.allowed == 8


async def test_a_retry_after_holds_for_those_that_wait_too():
    """Every call to that provider honours Retry-After."""
    limiter = Limiter(4)
    async with limiter.slot() as began:
        limiter.slow_down(began, retry_after=0.2)
        paused = time.monotonic()
    async with limiter.slot() as had:
        assert had - paused >= 0.19


@given(st.lists(st.tuples(st.sampled_from(["use", "cancel", "slow", "well"])), max_size=40))
def test_no_slot_is_ever_lost(steps):
    """After any sequence of cancellations and limits, all slots are free again."""

    async def play() -> None:
        limiter = Limiter(3)
        tasks: list[asyncio.Task[None]] = []

        async def use() -> None:
            async with limiter.slot() as began:
                began_at.append(began)
                await asyncio.sleep(0)

        began_at: list[float] = [0.0]
        for (step,) in steps:
            if step == "use":
                tasks.append(asyncio.ensure_future(use()))
            elif step == "cancel" and tasks:
                tasks[len(tasks) // 2].cancel()
            elif step == "slow":
                limiter.slow_down(began_at[-1])
            elif step == "well":
                limiter.speed_up()
            if len(tasks) % 3 == 0:
                await asyncio.sleep(0)
        await asyncio.gather(*tasks, return_exceptions=True)
        for _ in range(50):
            limiter.speed_up()
        assert await asyncio.wait_for(_most_at_once(limiter, 10), 5) == 3

    asyncio.run(play())


async def test_models_of_one_endpoint_share_a_limiter(make_model, provider_server, providers):
    """One limiter a provider, whatever the model."""
    provider_server.always = lambda received: (
        providers.Status(429, headers={"retry-after": "0.3"})
        if len(provider_server.requests) == 1
        else providers.Answer()
    )
    policy = RetryPolicy(base=0.0)
    one, other = (make_model(provider_server.url, retry=policy) for _ in range(2))
    first = asyncio.ensure_future(one.generate(REQUEST))
    while not provider_server.requests:
        await asyncio.sleep(0.001)
    await asyncio.sleep(0.05)
    await asyncio.gather(first, other.generate(REQUEST))
    times = [received.at for received in provider_server.requests]
    assert len(times) == 3
    assert min(times[1:]) - times[0] >= 0.29
