"""Polling: a question is repeated, at growing intervals, until its answer is final."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import TypeVar

from tenacity import AsyncRetrying, retry_if_result, wait_exponential, wait_random

__all__ = ["poll"]

_T = TypeVar("_T")
_GROWTH = 1.5
_JITTER = 0.1


async def poll(
    ask: Callable[[], Awaitable[_T]], *, is_final: Callable[[_T], bool], first: float, longest: float
) -> _T:
    """Return the first final answer. The interval grows from `first` to `longest` seconds, and is a little
    random, so that batches that were sent together are not polled together. Never gives up: a batch has been
    paid for."""
    retrying = AsyncRetrying(
        retry=retry_if_result(lambda answer: not is_final(answer)),
        wait=wait_exponential(multiplier=first, exp_base=_GROWTH, max=longest)
        + wait_random(0, _JITTER * first),
    )
    answer: _T = await retrying(ask)
    return answer
