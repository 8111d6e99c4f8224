"""The only place where a failed call is retried. How often and when is decided by RetryPolicy."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_result

from rlm.models.base import OnRetry, Reply, TokenUsage
from rlm.models.http.errors import AttemptFailure
from rlm.models.http.rate_limit import Limiter
from rlm.models.options import RetryPolicy

__all__ = ["with_retries"]

_T = TypeVar("_T")


async def with_retries(
    attempt: Callable[[], Awaitable[_T | AttemptFailure]],
    policy: RetryPolicy,
    *,
    limiter: Limiter | None = None,
    has_answered: Callable[[], bool] = lambda: True,
    on_retry: OnRetry | None = None,
) -> _T:
    """Return what the first attempt that succeeds returns. Raises the last failure's ModelError.

    Each attempt holds a slot of `limiter`; the wait between two attempts holds none. Waiting for a slot does
    not count against the policy's time. `has_answered` tells whether the endpoint has ever answered: until
    then a refused connection is given up early. Cancellation ends an attempt or a wait at once.
    """
    limiter = limiter or Limiter(1)
    began = time.monotonic()
    queued = 0.0
    spent = TokenUsage()

    async def call() -> _T | AttemptFailure:
        nonlocal queued, spent
        asked = time.monotonic()
        async with limiter.slot() as slot_began:
            queued += time.monotonic() - asked
            result = await attempt()
            if not isinstance(result, AttemptFailure):
                limiter.speed_up()
                return (
                    replace(result, usage=result.usage + spent)
                    if spent and isinstance(result, Reply)
                    else result
                )
            spent += result.spent
            if result.reason in ("rate_limited", "overloaded"):
                limiter.slow_down(slot_began, retry_after=policy.honored(result.retry_after))
            return result

    def wait(state: RetryCallState) -> float:
        return policy.pause(state.attempt_number, _failure(state).retry_after)

    def stop(state: RetryCallState) -> bool:
        reached = _failure(state).reason != "unreachable" or has_answered()
        elapsed = time.monotonic() - began - queued
        return policy.is_over(state.attempt_number, elapsed + state.upcoming_sleep, has_answered=reached)

    def report(state: RetryCallState) -> None:
        reason = _failure(state).reason
        if on_retry is not None and reason is not None:
            on_retry(state.attempt_number, state.upcoming_sleep, reason)

    first = await call()
    if not isinstance(first, AttemptFailure):
        # Nearly every call. Setting tenacity up would cost 0.1 ms of the driver's 1.5 ms a child.
        return first
    known = [first]

    async def repeat() -> _T | AttemptFailure:
        return known.pop() if known else await call()

    retrying = AsyncRetrying(
        retry=retry_if_result(
            lambda result: isinstance(result, AttemptFailure) and result.reason is not None
        ),
        wait=wait,
        stop=stop,
        before_sleep=report,
        retry_error_callback=_failure,
    )
    result: _T | AttemptFailure = await retrying(repeat)
    if isinstance(result, AttemptFailure):
        raise result.final(retrying.statistics["attempt_number"], time.monotonic() - began, spent or None)
    return result


def _failure(state: RetryCallState) -> AttemptFailure:
    assert state.outcome is not None
    result = state.outcome.result()
    assert isinstance(result, AttemptFailure)
    return result
