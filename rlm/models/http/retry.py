"""The only place where a failed call is retried. How often and when is decided by RetryPolicy."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TYPE_CHECKING, TypeVar

from rlm.models.base import OnRetry, Reply, TokenUsage
from rlm.models.http.errors import AttemptFailure
from rlm.models.http.rate_limit import Limiter
from rlm.models.options import RetryPolicy

if TYPE_CHECKING:
    from tenacity import RetryCallState

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
    began, queued = time.monotonic(), 0.0
    spent = TokenUsage()

    async def call() -> _T | AttemptFailure:
        nonlocal queued, spent
        asked = time.monotonic()
        async with limiter.slot() as slot_began:
            queued += time.monotonic() - asked
            result = await attempt()
            if not isinstance(result, AttemptFailure):
                limiter.speed_up()
                return result
            spent += result.spent
            if result.reason in ("rate_limited", "overloaded"):
                limiter.slow_down(slot_began, retry_after=policy.honored(result.retry_after))
            return result

    def stop(state: RetryCallState) -> bool:
        reached = _failure(state).reason != "unreachable" or has_answered()
        elapsed = time.monotonic() - began - queued
        return policy.is_over(state.attempt_number, elapsed + state.upcoming_sleep, has_answered=reached)

    def report(state: RetryCallState) -> None:
        reason = _failure(state).reason
        if on_retry is not None and reason is not None:
            on_retry(state.attempt_number, state.upcoming_sleep, reason)

    result, attempts = await call(), 1
    if isinstance(result, AttemptFailure) and result.reason is not None:
        # Nearly no call comes here, so the library is imported here: it takes 20 ms and 2.4 MB.
        from tenacity import AsyncRetrying, retry_if_result

        first = [result]

        async def repeat() -> _T | AttemptFailure:
            return first.pop() if first else await call()

        retrying = AsyncRetrying(
            retry=retry_if_result(lambda one: isinstance(one, AttemptFailure) and one.reason is not None),
            wait=lambda state: policy.pause(state.attempt_number, _failure(state).retry_after),
            stop=stop,
            before_sleep=report,
            retry_error_callback=_failure,
        )
        result = await retrying(repeat)
        attempts = retrying.statistics["attempt_number"]
    if isinstance(result, AttemptFailure):
        raise result.final(attempts, time.monotonic() - began, spent or None)
    return replace(result, usage=result.usage + spent) if isinstance(result, Reply) and spent else result


def _failure(state: RetryCallState) -> AttemptFailure:
    assert state.outcome is not None
    failure = state.outcome.result()
    assert isinstance(failure, AttemptFailure)
    return failure
