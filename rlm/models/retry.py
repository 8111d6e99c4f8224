"""The only place where a call is made again."""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable

from tenacity import AsyncRetrying, RetryCallState, retry_if_result, wait_random_exponential

from rlm.models.base import Reply
from rlm.models.failures import Failure
from rlm.models.options import OnRetry, RetryPolicy

__all__ = ["with_retries"]


async def with_retries(
    attempt: Callable[[], Awaitable[Reply | Failure]],
    policy: RetryPolicy,
    *,
    reached: Callable[[], bool],
    on_retry: OnRetry | None = None,
) -> Reply:
    """The reply of the first attempt that gives one. Raises the last failure's ModelError.

    `reached` says whether the endpoint has ever answered: until then one that nobody listens at is given
    up early. Cancellation ends an attempt or a wait at once.
    """
    jitter = wait_random_exponential(multiplier=policy.base, max=policy.cap)

    def wait(state: RetryCallState) -> float:
        asked = _failure(state).retry_after or 0.0
        return min(asked, policy.retry_after_cap) + jitter(state)

    def stop(state: RetryCallState) -> bool:
        attempts, seconds = policy.attempts, policy.total
        if _failure(state).reason == "unreachable" and not reached():
            attempts = min(attempts, policy.unreachable_attempts)
            seconds = min(seconds, policy.unreachable_total)
        elapsed = state.seconds_since_start or 0.0
        return state.attempt_number >= attempts or elapsed + state.upcoming_sleep > seconds

    def tell(state: RetryCallState) -> None:
        reason = _failure(state).reason
        if on_retry is not None and reason is not None:
            on_retry(state.attempt_number, state.upcoming_sleep, reason)

    retrying = AsyncRetrying(
        retry=retry_if_result(lambda result: isinstance(result, Failure) and result.reason is not None),
        wait=wait,
        stop=stop,
        before_sleep=tell,
        retry_error_callback=_failure,
    )

    async def once() -> Reply | Failure:  # tenacity awaits nothing but coroutine functions
        return await attempt()

    began = time.monotonic()
    result: Reply | Failure = await retrying(once)
    if isinstance(result, Failure):
        attempts = int(retrying.statistics.get("attempt_number", 1))
        raise result.final(attempts, time.monotonic() - began)
    return result


def _failure(state: RetryCallState) -> Failure:
    assert state.outcome is not None
    result = state.outcome.result()
    assert isinstance(result, Failure)
    return result
