"""Interrupts: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import atexit
import os
import signal
from collections.abc import Coroutine
from types import FrameType
from typing import Any, TypeVar

__all__ = ["INTERRUPTED", "leave_at_once_on_interrupt", "outlast_interrupts_at_exit", "run_interruptible"]

INTERRUPTED = 130

_T = TypeVar("_T")


def run_interruptible(work: Coroutine[Any, Any, _T]) -> _T:
    """Run `work` like `asyncio.run`, with SIGTERM and SIGHUP treated like Ctrl-C.

    The signal cancels `work`; after its cleanup KeyboardInterrupt is raised. A second Ctrl-C exits at once,
    which loses nothing: the journal needs no cleanup. A signal that is ignored (nohup) stays ignored.
    """
    import asyncio

    ctrl_c = signal.getsignal(signal.SIGINT) is signal.default_int_handler

    async def watched() -> _T:
        task = asyncio.current_task()
        assert task is not None
        ending = False

        def end(signum: int) -> None:
            nonlocal ending
            if not ending:
                ending = True
                task.cancel()
            elif signum == signal.SIGINT:
                _leave(signum, None)
            # A closed terminal sends SIGHUP more than once: the second must not cut the cleanup short.

        loop = asyncio.get_running_loop()
        for signum in (signal.SIGTERM, signal.SIGHUP):
            if signal.getsignal(signum) is signal.SIG_DFL:
                loop.add_signal_handler(signum, end, signum)
        if ctrl_c:
            loop.add_signal_handler(signal.SIGINT, end, signal.SIGINT)
        return await work

    try:
        return asyncio.run(watched())
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
        signal.signal(signal.SIGINT, _leave)


def _leave(_signum: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"rlm: interrupted\n")
    finally:
        os._exit(INTERRUPTED)
