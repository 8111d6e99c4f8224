"""Interrupts: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import atexit
import signal
from collections.abc import Coroutine
from typing import Any, TypeVar

from rlm.cli.process.leaving import leave

__all__ = ["INTERRUPTED", "leave_at_once_on_interrupt", "outlast_interrupts_at_exit", "run_interruptible"]

INTERRUPTED = 130

_T = TypeVar("_T")


def run_interruptible(work: Coroutine[Any, Any, _T]) -> _T:
    """Run `work` like `asyncio.run`, with SIGTERM and SIGHUP treated like Ctrl-C.

    The signal cancels `work`; after its cleanup KeyboardInterrupt is raised. If the event loop stands still,
    the process ends by itself within two seconds (`watchdog`). A second Ctrl-C exits at once. Neither loses
    anything: the journal needs no cleanup. A signal that is ignored (nohup) stays ignored.
    """
    import asyncio

    from rlm.cli.process.watchdog import watching

    taken = [
        signum for signum in (signal.SIGTERM, signal.SIGHUP) if signal.getsignal(signum) is signal.SIG_DFL
    ]
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        taken.append(signal.SIGINT)

    task: asyncio.Task[_T] | None = None
    is_ending = False

    async def watched() -> _T:
        nonlocal task
        task = asyncio.current_task()
        if is_ending:
            work.close()
            raise asyncio.CancelledError
        return await work

    def end() -> None:
        nonlocal is_ending
        is_ending = True
        if task is not None:
            task.cancel()

    runner = asyncio.Runner()
    try:
        # Watched to the end of the runner, which waits for threads.
        with watching(runner.get_loop(), taken, end), runner:
            return runner.run(watched())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None


def outlast_interrupts_at_exit() -> None:
    """Ignore SIGINT after all other exit handlers: by then it would only kill the interpreter.

    Call this first, because exit handlers run in reverse order.
    """
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def leave_at_once_on_interrupt() -> None:
    """Let Ctrl-C exit at once from here on. Call it when the command's work is done."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, lambda signum, _frame: leave(signum))
