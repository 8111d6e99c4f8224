"""Starts brokers: one job each of a confined worker that all kernels of this process share.

A worker and its brokers are started apart from the forkserver and its kernels. So a kernel does not know the
addresses of its broker.
"""

from __future__ import annotations

import atexit
import os
import socket
import threading
from collections.abc import Mapping
from concurrent.futures import Future
from pathlib import Path

from rlm.sandbox.worker.confined_worker import ConfinedWorker, WorkerFailed

__all__ = ["BrokersUnavailable", "open_broker", "shutdown_brokers", "warm_brokers"]

_MEMORY_MB = 512
_FUNCTION = "rlm.sandbox.broker.service:serve"
_CONFINED = 2


class BrokersUnavailable(Exception):
    """No broker runs as confined as its kernel. `failed` maps each missing layer to the system's reason."""

    def __init__(self, failed: Mapping[str, str]) -> None:
        super().__init__("; ".join(f"{layer}: {reason}" for layer, reason in failed.items()))
        self.failed = dict(failed)


_shared = ConfinedWorker(memory_mb=_MEMORY_MB)


def open_broker(folder: Path, level: int) -> Future[tuple[socket.socket, bool]]:
    """Start a broker for a kernel at `level`, whose sockets are in `folder`, on a thread of its own.

    Returns the driver's end of its channel, and whether its system calls can be filtered, or raises
    BrokersUnavailable. Who no longer waits for it closes the channel in a callback.
    """
    outcome: Future[tuple[socket.socket, bool]] = Future()
    outcome.set_running_or_notify_cancel()

    def work() -> None:
        # The boundary of the thread: every exception is raised by the future.
        try:
            outcome.set_result(_open(folder, level))
        except BaseException as error:
            outcome.set_exception(error)

    # Not asyncio.to_thread, which loses what it opens when its caller is cancelled.
    threading.Thread(target=work, name="rlm-broker", daemon=True).start()
    return outcome


def _open(folder: Path, level: int) -> tuple[socket.socket, bool]:
    run = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    try:
        channel = _shared.begin(_FUNCTION, files=[run], calls="broker")
    except WorkerFailed as error:
        raise BrokersUnavailable({"broker": str(error)}) from error
    finally:
        os.close(run)
    found = _shared.level or 0
    if found < min(level, _CONFINED):
        channel.close()
        reasons = "; ".join(f"{layer}: {reason}" for layer, reason in _shared.refused.items())
        raise BrokersUnavailable({"broker": f"it can be confined at level {found} only ({reasons})"})
    channel.setblocking(False)
    return channel, found > 0


def warm_brokers() -> None:
    """Start the worker in the background, if it does not run, so that its imports overlap the caller's."""
    if _shared.level is None:
        threading.Thread(target=_shared.warm, args=(_FUNCTION,), daemon=True).start()


def shutdown_brokers() -> None:
    """Let the worker end with its last broker. The next broker starts a new one."""
    _shared.finish()


atexit.register(shutdown_brokers)
os.register_at_fork(after_in_child=_shared.abandon)
