"""Interrupts: Ctrl-C, SIGTERM, and SIGHUP of a closed terminal."""

from __future__ import annotations

import atexit
import faulthandler
import os
import signal
from collections.abc import Coroutine
from contextlib import suppress
from threading import Timer
from typing import TYPE_CHECKING, Any, TypeVar

if TYPE_CHECKING:
    import asyncio

    from rlm.runtime import RLM

__all__ = [
    "INTERRUPTED",
    "leave_at_once_on_interrupt",
    "outlast_interrupts_at_exit",
    "run_interruptible",
    "run_with",
]

INTERRUPTED = 130
LOOP_SECONDS = 1.5
"""Seconds in which the event loop must react to the signal."""
CLEANUP_SECONDS = 10.0
"""Seconds that the cleanup after a signal may take."""
_OVERDUE = "rlm: interrupted; it was busy and did not stop, so it was ended at once\n"
_SHOW_CURSOR = b"\x1b[?25h"

_T = TypeVar("_T")


def run_interruptible(work: Coroutine[Any, Any, _T]) -> _T:
    """Run `work` like `asyncio.run`, with SIGTERM and SIGHUP treated like Ctrl-C.

    The first signal cancels `work`; after its cleanup KeyboardInterrupt is raised. If the event loop stands
    still, or the cleanup takes too long, the process ends by itself. A second Ctrl-C ends it at once. Neither
    loses anything: the journal needs no cleanup. A closed terminal sends SIGHUP more than once; that does not
    cut the cleanup short. A signal that is ignored (nohup) stays ignored.

    Python handles a signal between two of its instructions: one call into C code that never returns must be
    ended by SIGQUIT or SIGKILL.
    """
    import asyncio

    runner = asyncio.Runner()
    loop = runner.get_loop()
    task: asyncio.Task[_T] | None = None
    is_ending = False
    timer = Timer(0, lambda: None)

    def restart_timer(seconds: float, signum: int) -> None:
        nonlocal timer
        timer.cancel()
        timer = Timer(seconds, leave, (signum, _OVERDUE))
        timer.daemon = True
        timer.start()

    def on_signal(signum: int, _frame: object) -> None:
        nonlocal is_ending
        if is_ending:
            if signum == signal.SIGINT:
                leave(signum)
            return
        is_ending = True
        restart_timer(LOOP_SECONDS, signum)
        # C code that keeps Python's lock stops that timer's thread, but not this one.
        faulthandler.dump_traceback_later(LOOP_SECONDS + CLEANUP_SECONDS + 1, exit=True, file=null)

        def end() -> None:
            restart_timer(CLEANUP_SECONDS, signum)
            if task is not None:
                task.cancel()

        # A closed loop answers nothing. Its closing is the last thing that the command waits for.
        with suppress(RuntimeError):
            loop.call_soon_threadsafe(end)

    async def cancellable() -> _T:
        nonlocal task
        task = asyncio.current_task()
        if is_ending:
            work.close()
            raise asyncio.CancelledError
        return await work

    taken = {
        signum: handler
        for signum in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
        if (handler := signal.getsignal(signum)) in (signal.SIG_DFL, signal.default_int_handler)
    }
    null = os.open(os.devnull, os.O_WRONLY | os.O_CLOEXEC)
    try:
        for signum in taken:
            signal.signal(signum, on_signal)
        # Handled to the end of the runner, which waits for threads.
        with runner:
            return runner.run(cancellable())
    except asyncio.CancelledError:
        raise KeyboardInterrupt from None
    finally:
        timer.cancel()
        faulthandler.cancel_dump_traceback_later()
        os.close(null)
        for signum, handler in taken.items():
            signal.signal(signum, handler)


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


def leave(signum: int, line: str = "rlm: interrupted\n") -> None:
    """End the process with the exit code of that signal. Nothing is cleaned up: the journal needs no cleanup,
    and kernels end with this process."""
    try:
        # A progress display hides the cursor.
        os.write(2, (_SHOW_CURSOR if os.isatty(2) else b"") + line.encode())
    finally:
        os._exit(128 + signum)


def run_with(rlm: RLM, work: Coroutine[Any, Any, _T]) -> _T:
    """Run `work` of this runtime as `run_interruptible`, and close the runtime after it."""

    async def close_after() -> _T:
        try:
            return await work
        finally:
            await rlm.aclose()

    return run_interruptible(close_after())
