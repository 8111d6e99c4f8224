"""How a command ends before its end: by Ctrl-C, by SIGTERM, by a terminal that is closed."""

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
    """`asyncio.run`, with SIGTERM and SIGHUP doing what Ctrl-C does: `work` is cancelled, cleans up, and
    KeyboardInterrupt is raised. A second Ctrl-C leaves at once: nothing that is kept needs the cleaning up. A
    signal that is ignored (nohup) stays so."""
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
            # A closed terminal sends SIGHUP more than once: that must not end the cleaning up.

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
    """Call first of all. Past every other exit handler nothing is left to interrupt, but the interpreter
    would still die of the signal."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        atexit.register(signal.signal, signal.SIGINT, signal.SIG_IGN)


def leave_at_once_on_interrupt() -> None:
    """From here on the command's work is done: Ctrl-C says so and leaves, whatever is waited for."""
    if signal.getsignal(signal.SIGINT) is not signal.SIG_IGN:
        signal.signal(signal.SIGINT, _leave)


def _leave(_signum: int, _frame: FrameType | None) -> None:
    try:
        os.write(2, b"rlm: interrupted\n")
    finally:
        os._exit(INTERRUPTED)
