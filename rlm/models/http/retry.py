"""The only place where a failed call is retried."""

from __future__ import annotations

import asyncio
import random
import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from rlm.models.base import Reply, TokenUsage
from rlm.models.http.error_mapping import AttemptFailure
from rlm.models.http.rate_limit import Limiter
from rlm.models.options import OnRetry, RetryPolicy

__all__ = ["with_retries"]


async def with_retries(
    attempt: Callable[[], Awaitable[Reply | AttemptFailure]],
    policy: RetryPolicy,
    *,
    limiter: Limiter,
    has_answered: Callable[[], bool],
    on_retry: OnRetry | None = None,
) -> Reply:
    """Return the reply of the first attempt that succeeds. Raises the last failure's ModelError.

    Each attempt holds a slot of `limiter`; the wait between two attempts holds none. Waiting for a slot does
    not count against the policy's time. `has_answered` tells whether the endpoint has ever answered: until
    then a refused connection is given up early. Cancellation ends an attempt or a wait at once.
    """
    began = time.monotonic()
    queued = 0.0
    spent = TokenUsage()
    number = 0
    while True:
        number += 1
        asked = time.monotonic()
        async with limiter.slot() as slot_began:
            queued += time.monotonic() - asked
            result = await attempt()
            if isinstance(result, Reply):
                limiter.speed_up()
                return replace(result, usage=result.usage + spent) if spent else result
            spent += result.spent
            retry_after = min(result.retry_after or 0.0, policy.retry_after_cap)
            if result.reason in ("rate_limited", "overloaded"):
                limiter.slow_down(slot_began, retry_after=retry_after)
        attempts, seconds = policy.attempts, policy.total
        if result.reason == "unreachable" and not has_answered():
            attempts = min(attempts, policy.unreachable_attempts)
            seconds = min(seconds, policy.unreachable_total)
        pause = retry_after + _choose_pause(policy, number)
        elapsed = time.monotonic() - began - queued
        if result.reason is None or number >= attempts or elapsed + pause > seconds:
            raise result.final(number, time.monotonic() - began, spent or None)
        if on_retry is not None:
            on_retry(number, pause, result.reason)
        await asyncio.sleep(pause)


def _choose_pause(policy: RetryPolicy, failed: int) -> float:
    """Return a random pause after `failed` attempts. Its upper bound doubles each time, up to the cap. The
    whole range is random ("full jitter"), so that calls which failed together do not come back together."""
    # Beyond 2**64 any bound is over the cap, and a float would overflow.
    return random.uniform(0.0, min(policy.cap, policy.base * 2.0 ** min(failed - 1, 64)))  # noqa: S311
