"""Runs blocking work in a daemon thread.

`asyncio.run` waits at its end for every thread of `asyncio.to_thread`, and a thread cannot be cancelled: work
that takes long would keep the process from ending. It does not wait for a daemon thread.
"""

from __future__ import annotations

import asyncio
import contextvars
import threading
from collections.abc import Callable
from contextlib import suppress
from typing import TypeVar

__all__ = ["run_in_daemon_thread"]

_T = TypeVar("_T")


async def run_in_daemon_thread(work: Callable[[], _T], *, name: str = "rlm-work") -> _T:
    """Return the result of `work`, or raise its exception.

    If the caller is cancelled, the thread continues and its result is dropped. Work that must stop then needs
    a flag of its own.
    """
    loop = asyncio.get_running_loop()
    outcome: asyncio.Future[tuple[_T | None, BaseException | None]] = loop.create_future()

    def finish(value: _T | None, error: BaseException | None) -> None:
        if not outcome.done():
            outcome.set_result((value, error))

    def act() -> None:
        value, error = None, None
        try:
            value = work()
        except BaseException as raised:
            # The boundary of the thread: the caller gets every exception.
            error = raised
        # If the loop is closed, no caller waits.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(finish, value, error)

    context = contextvars.copy_context()
    threading.Thread(target=context.run, args=(act,), name=name, daemon=True).start()
    value, error = await outcome
    if error is not None:
        raise error
    return value  # type: ignore[return-value]
