"""The only place where a failed call is retried. How often and when is decided by RetryPolicy."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace
from typing import TypeVar

from tenacity import AsyncRetrying, RetryCallState, retry_if_exception

from rlm.models.base import OnRetry, Reply, TokenUsage
from rlm.models.http.errors import AttemptFailure
from rlm.models.http.rate_limit import Limiter
from rlm.models.options import RetryPolicy

__all__ = ["with_retries"]

_T = TypeVar("_T")


class _Failed(Exception):
    """An attempt failed. `failure` says how."""

    def __init__(self, failure: AttemptFailure) -> None:
        super().__init__(failure.what)
        self.failure = failure
        self.is_passing = failure.reason is not None


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

    async def call() -> _T:
        nonlocal queued, spent
        asked = time.monotonic()
        async with limiter.slot() as slot_began:
            queued += time.monotonic() - asked
            result = await attempt()
            if isinstance(result, AttemptFailure):
                spent += result.spent
                if result.reason in ("rate_limited", "overloaded"):
                    limiter.slow_down(slot_began, retry_after=policy.honored(result.retry_after))
                raise _Failed(result)
            limiter.speed_up()
        return replace(result, usage=result.usage + spent) if isinstance(result, Reply) and spent else result

    def stop(state: RetryCallState) -> bool:
        reached = _failure(state).reason != "unreachable" or has_answered()
        elapsed = time.monotonic() - began - queued
        return policy.is_over(state.attempt_number, elapsed + state.upcoming_sleep, has_answered=reached)

    def report(state: RetryCallState) -> None:
        reason = _failure(state).reason
        if on_retry is not None and reason is not None:
            on_retry(state.attempt_number, state.upcoming_sleep, reason)

    try:
        return await call()  # nearly every call: setting tenacity up would cost 0.1 ms of 1.5 ms a child
    except _Failed as failed:
        first = [failed]

    async def repeat() -> _T:
        if first:
            raise first.pop()
        return await call()

    retrying = AsyncRetrying(
        retry=retry_if_exception(lambda error: isinstance(error, _Failed) and error.is_passing),
        wait=lambda state: policy.pause(state.attempt_number, _failure(state).retry_after),
        stop=stop,
        before_sleep=report,
        reraise=True,
    )
    try:
        return await retrying(repeat)
    except _Failed as failed:
        failure, tries = failed.failure, retrying.statistics["attempt_number"]
    # Raised outside, so that the error has no context.
    raise failure.final(tries, time.monotonic() - began, spent or None)


def _failure(state: RetryCallState) -> AttemptFailure:
    error = None if state.outcome is None else state.outcome.exception()
    assert isinstance(error, _Failed)
    return error.failure
