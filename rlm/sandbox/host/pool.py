"""A pool of started kernels that limits how many are alive."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.kernel_process import FreshKernels, KernelProcess, KernelSource

__all__ = ["KernelPool"]


class KernelPool:
    """A kernel source that keeps spare kernels ready. Pass it to each JupyterSandbox as `kernels`.

    At most `cap` kernels are alive, spares included. `acquire` waits, in order, until one is free. `spare`
    kernels are kept started without a context. A kernel serves one context and is shut down on release, so
    that no variable leaks into another text.

    With `refill`, a spare that was taken is replaced at once. Without, a run that needs one kernel has no
    second one in memory.

    The pool belongs to one event loop. Closing it, or leaving it as a context manager, shuts down all its
    kernels. `source` starts the kernels; the default uses the strongest isolation level available.
    """

    def __init__(
        self, cap: int, *, spare: int = 1, refill: bool = True, source: KernelSource | None = None
    ) -> None:
        if cap < 1 or spare < 0:
            raise ValueError(f"a pool needs room for a kernel: cap={cap}, spare={spare}")
        self._cap = cap
        self._spare = spare
        self._refill = refill
        self._source = source or FreshKernels()
        self._room = asyncio.Semaphore(cap)
        self._spares: deque[asyncio.Task[KernelProcess]] = deque()
        self._in_use: set[KernelProcess] = set()
        self._starting = 0
        self._closed = False

    @property
    def alive(self) -> int:
        """Return the number of kernels that run or are starting, spares included."""
        return len(self._in_use) + self._starting + len(self._spares)

    def warm(self) -> None:
        """Start the spare kernels. `acquire` also does this. Call it to start them earlier."""
        while not self._closed and len(self._spares) < self._spare and self.alive < self._cap:
            self._spares.append(asyncio.get_running_loop().create_task(self._source.acquire()))

    async def acquire(self) -> KernelProcess:
        """Return a started kernel without a context. Takes a spare kernel if there is one.

        Raises SandboxRefused, or KernelStartError (also when the pool is closed).
        """
        await self._room.acquire()
        try:
            self._refuse_if_closed()
            kernel = await self._acquire_spare() or await self._start_new()
            self._in_use.add(kernel)
        except BaseException:
            self._room.release()
            raise
        if self._closed:
            await self.release(kernel)
            self._refuse_if_closed()
        self._replace_spares()
        return kernel

    async def release(self, kernel: KernelProcess) -> None:
        """Shut down a kernel that `acquire` returned. Safe to call twice."""
        try:
            await self._source.release(kernel)
        finally:
            if kernel in self._in_use:
                self._in_use.remove(kernel)
                self._room.release()
                self._replace_spares()

    async def close(self) -> None:
        """Shut down every kernel, including those in use. Safe to call twice."""
        self._closed = True
        spares, self._spares = list(self._spares), deque()
        for task in spares:
            task.cancel()
        for outcome in await asyncio.gather(*spares, return_exceptions=True):
            if isinstance(outcome, KernelProcess):
                await self._source.release(outcome)
        await asyncio.gather(*map(self.release, list(self._in_use)))

    async def __aenter__(self) -> Self:
        self.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _replace_spares(self) -> None:
        if self._refill:
            self.warm()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise KernelStartError("the pool is closed")

    async def _acquire_spare(self) -> KernelProcess | None:
        """Return a spare kernel once it has started, or None if none is alive."""
        while self._spares:
            task = self._spares.popleft()
            self._starting += 1
            try:
                kernel = await asyncio.shield(task)
            except asyncio.CancelledError:
                # The caller was cancelled: the kernel stays a spare, for the next caller or for `close`.
                self._spares.appendleft(task)
                if self._closed:
                    await self.close()
                raise
            except Exception:
                # It could not start. The caller starts a new kernel, and gets the reason if that fails, too.
                return None
            finally:
                self._starting -= 1
            if kernel.alive:
                return kernel
            await self._source.release(kernel)
        return None

    async def _start_new(self) -> KernelProcess:
        self._starting += 1
        try:
            return await self._source.acquire()
        finally:
            self._starting -= 1
