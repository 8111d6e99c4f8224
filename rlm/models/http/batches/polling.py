"""Polling: a question is repeated, at growing intervals, until its answer is final."""

from __future__ import annotations

import asyncio
import random
from collections.abc import Awaitable, Callable
from typing import TypeVar

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
    pause = first
    while not is_final(answer := await ask()):
        await asyncio.sleep(pause + random.uniform(0, _JITTER * first))  # noqa: S311
        pause = min(longest, pause * _GROWTH)
    return answer
