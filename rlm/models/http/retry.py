"""The only place where a call is made again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable
from dataclasses import replace

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

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
    reached: Callable[[], bool],
    on_retry: OnRetry | None = None,
) -> Reply:
    """The reply of the first attempt that gives one. Raises the last failure's ModelError.

    Each attempt holds a slot of `limiter`, a wait between two holds none; waiting for a slot does not count
    against the policy's time. `reached` says whether the endpoint has ever answered: until then one that
    nobody listens at is given up early. Cancellation ends an attempt or a wait at once.
    """
    queued = 0.0
    spent = TokenUsage()
    jitter = wait_random_exponential(multiplier=policy.base, max=policy.cap)

    def wait(state: RetryCallState) -> float:
        return _asked_for(_failure(state), policy) + jitter(state)

    def stop(state: RetryCallState) -> bool:
        attempts, seconds = policy.attempts, policy.total
        if _failure(state).reason == "unreachable" and not reached():
            attempts = min(attempts, policy.unreachable_attempts)
            seconds = min(seconds, policy.unreachable_total)
        elapsed = time.monotonic() - began - queued
        return state.attempt_number >= attempts or elapsed + state.upcoming_sleep > seconds

    def tell(state: RetryCallState) -> None:
        reason = _failure(state).reason
        if on_retry is not None and reason is not None:
            on_retry(state.attempt_number, state.upcoming_sleep, reason)

    async def once() -> Reply | AttemptFailure:
        nonlocal queued, spent
        asked = time.monotonic()
        async with limiter.slot() as slot_began:
            queued += time.monotonic() - asked
            result = await attempt()
            if isinstance(result, Reply):
                limiter.speed_up()
                return replace(result, usage=result.usage + spent) if spent else result
            spent += result.spent
            if result.reason in ("rate_limited", "overloaded"):
                limiter.slow_down(slot_began, retry_after=_asked_for(result, policy))
            return result

    began = time.monotonic()
    result = await once()
    if isinstance(result, Reply):
        return result  # as nearly all are: to be ready for the others takes as long as the rest of it
    failed = [result]

    async def again() -> Reply | AttemptFailure:
        return failed.pop() if failed else await once()

    retrying = AsyncRetrying(
        retry=retry_if_result(
            lambda result: isinstance(result, AttemptFailure) and result.reason is not None
        ),
        wait=wait,
        stop=stop,
        before_sleep=tell,
        retry_error_callback=_failure,
    )
    result = await retrying(again)
    if isinstance(result, AttemptFailure):
        attempts = int(retrying.statistics.get("attempt_number", 1))
        raise result.final(attempts, time.monotonic() - began, spent or None)
    return result


def _failure(state: RetryCallState) -> AttemptFailure:
    assert state.outcome is not None
    result = state.outcome.result()
    assert isinstance(result, AttemptFailure)
    return result


def _asked_for(failure: AttemptFailure, policy: RetryPolicy) -> float:
    """Seconds of the provider's Retry-After, as far as the policy follows it."""
    return min(failure.retry_after or 0.0, policy.retry_after_cap)
