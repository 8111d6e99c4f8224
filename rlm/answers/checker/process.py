"""The driver's end of one checker process."""

from __future__ import annotations

import asyncio
import socket
import time
from typing import Any

from rlm.sandbox import ConfinedWorker, WorkerFailed
from rlm.sandbox.host.daemon_thread import run_in_daemon_thread
from rlm.sandbox.in_kernel import wire

__all__ = ["CheckFailed", "CheckerProcess"]

_SERVE = "rlm.answers.checker.worker:serve"
_CPU_SECONDS = 1_200
"""Twice what the pool gives a process before it starts a new one."""
_GRACE_SECONDS = 0.5
"""What an answer may take after the seconds of its request."""


class CheckFailed(Exception):
    """A check gave no result: it took too long, or too much memory. The message is the reason."""


class CheckerProcess:
    """One process, a job of a confined worker. It is started by its first request, serves one request at a
    time, from any event loop, and is killed when a request fails."""

    def __init__(self, worker: ConfinedWorker) -> None:
        self._worker = worker
        self._channel: socket.socket | None = None
        self.busy_seconds = 0.0
        """How long it has worked on requests."""

    @property
    def is_alive(self) -> bool:
        """Return whether it runs. One that was not asked yet counts as running."""
        if self._channel is None:
            return True
        try:
            return self._channel.recv(1, socket.MSG_PEEK) != b""
        except BlockingIOError:
            return True
        except OSError:
            return False

    async def ask(self, request: dict[str, Any], descriptor: int | None, seconds: float) -> dict[str, Any]:
        """Return the answer to a request. Raises CheckFailed.

        `descriptor` is of the text that the request is about. The time to start does not count. If this is
        cancelled or fails, the process is killed.
        """
        channel = await self._started()
        began = time.monotonic()
        try:
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                await _send(channel, wire.encode(request), descriptor)
                return await _receive(channel)
        except TimeoutError:
            self.kill()
            raise CheckFailed(f"not done within {seconds:g} s") from None
        except (OSError, EOFError, wire.WireError) as error:
            self.kill()
            raise CheckFailed("its process ended, perhaps for lack of memory") from error
        except BaseException:
            # The rest of an answer must not be read as the next one.
            self.kill()
            raise
        finally:
            self.busy_seconds += time.monotonic() - began

    def kill(self) -> None:
        """End the process: it ends with its channel."""
        if self._channel is not None:
            self._channel.close()

    async def _started(self) -> socket.socket:
        if self._channel is None:
            try:
                self._channel = await run_in_daemon_thread(
                    lambda: self._worker.begin(_SERVE, cpu_seconds=_CPU_SECONDS)
                )
            except WorkerFailed as error:
                raise CheckFailed(f"its process did not start ({error})") from error
            self._channel.setblocking(False)
        return self._channel


async def _send(channel: socket.socket, frame: bytes, descriptor: int | None) -> None:
    # The descriptor goes with the first bytes, for which there is always room.
    socket.send_fds(channel, [frame[: wire.HEADER_SIZE]], [] if descriptor is None else [descriptor])
    await asyncio.get_running_loop().sock_sendall(channel, frame[wire.HEADER_SIZE :])


async def _receive(channel: socket.socket) -> dict[str, Any]:
    size = wire.body_size(await _receive_bytes(channel, wire.HEADER_SIZE), wire.MAX_CALL)
    return wire.decode(await _receive_bytes(channel, size))


async def _receive_bytes(channel: socket.socket, size: int) -> bytes:
    data = bytearray()
    while len(data) < size:
        piece = await asyncio.get_running_loop().sock_recv(channel, size - len(data))
        if not piece:
            raise EOFError
        data += piece
    return bytes(data)
