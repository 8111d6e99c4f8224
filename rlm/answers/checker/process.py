"""The driver's end of one checker process."""

from __future__ import annotations

import asyncio
import os
import signal
import socket
import subprocess
import sys
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

from rlm.sandbox.in_kernel import wire

__all__ = ["CheckFailed", "CheckerProcess"]

_MEMORY = 1 << 30
_START_SECONDS = 30.0
_GRACE_SECONDS = 0.5
"""The process itself stops after the seconds of a request. Then it has this time to answer."""
_END_SECONDS = 5.0


class CheckFailed(Exception):
    """A check gave no result: it took too long, or too much memory. The message is the reason."""


class CheckerProcess:
    """One process. It serves one request at a time, from any event loop. Killed when a request fails."""

    def __init__(self) -> None:
        """Start the process. Raises CheckFailed."""
        self._channel, theirs = socket.socketpair()
        self._channel.setblocking(False)
        self._ready = False
        self.busy_seconds = 0.0
        """How long it has worked on requests."""
        try:
            with theirs:
                self._process = subprocess.Popen(
                    [
                        *(sys.executable, "-P", "-s", "-m", "rlm.answers.checker.worker"),
                        *(str(theirs.fileno()), str(_MEMORY)),
                    ],
                    # Of the environment only the path of our code: it must not reach keys.
                    env={"PYTHONPATH": str(Path(__file__).parents[3]), "LC_ALL": "C.UTF-8"},
                    stdin=subprocess.DEVNULL,
                    stdout=subprocess.DEVNULL,
                    stderr=subprocess.DEVNULL,
                    pass_fds=[theirs.fileno()],
                    cwd="/",
                    # Ctrl-C of a terminal goes to the driver's group only. Killed as a group.
                    start_new_session=True,
                )
        except OSError as error:
            self._channel.close()
            raise CheckFailed(f"no process for it could be started ({error})") from error

    @property
    def pid(self) -> int:
        return self._process.pid

    @property
    def is_alive(self) -> bool:
        return self._process.poll() is None

    async def ask(self, request: dict[str, Any], descriptor: int | None, seconds: float) -> dict[str, Any]:
        """Return the answer to a request. Raises CheckFailed.

        `descriptor` is of the text that the request is about. The time to start does not count. If this is
        cancelled or fails, the process is killed.
        """
        began = time.monotonic()
        try:
            if not self._ready:
                async with asyncio.timeout(_START_SECONDS):
                    await self._receive()
                self._ready = True
            async with asyncio.timeout(seconds + _GRACE_SECONDS):
                await self._send(wire.encode({**request, "seconds": seconds}), descriptor)
                return await self._receive()
        except TimeoutError:
            self.kill()
            started = f"within {seconds:g} s" if self._ready else "because its process did not start"
            raise CheckFailed(f"not done {started}") from None
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
        """End the process with all that it may have started."""
        self._channel.close()
        with suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        with suppress(subprocess.TimeoutExpired):
            self._process.wait(_END_SECONDS)

    def abandon(self) -> None:
        """Forget the process: it belongs to the parent of this one."""
        self._channel.close()
        self._process.returncode = 0

    async def _send(self, frame: bytes, descriptor: int | None) -> None:
        # The descriptor goes with the first bytes, for which there is always room.
        socket.send_fds(
            self._channel, [frame[: wire.HEADER_SIZE]], [] if descriptor is None else [descriptor]
        )
        await asyncio.get_running_loop().sock_sendall(self._channel, frame[wire.HEADER_SIZE :])

    async def _receive(self) -> dict[str, Any]:
        size = wire.body_size(await self._receive_bytes(wire.HEADER_SIZE), wire.MAX_CALL)
        return wire.decode(await self._receive_bytes(size))

    async def _receive_bytes(self, size: int) -> bytes:
        data = bytearray()
        while len(data) < size:
            piece = await asyncio.get_running_loop().sock_recv(self._channel, size - len(data))
            if not piece:
                raise EOFError
            data += piece
        return bytes(data)
