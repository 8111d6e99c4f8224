"""Kernels kept ready, and no more of them alive than the machine is meant to carry."""

from __future__ import annotations

import asyncio
from collections import deque
from types import TracebackType
from typing import Self

from rlm.sandbox.errors import KernelStartError
from rlm.sandbox.host.kernel_process import FreshKernels, KernelProcess, KernelSource

__all__ = ["KernelPool"]


class KernelPool:
    """A source of kernels with some in reserve. Give it to each JupyterSandbox as `kernels`.

    At most `cap` kernels are alive at once, those in reserve included; who asks for one more waits until
    another is given back, in order. `spare` of them are kept started, each without a context. A kernel serves
    one context and is ended when given back: no variable meets another text. Belongs to one event loop; ends
    with `close`, or as a context manager, and every kernel with it. `source` is where it has them from; the
    default starts each at the strongest level that can be had.
    """

    def __init__(self, cap: int, *, spare: int = 1, source: KernelSource | None = None) -> None:
        if cap < 1 or spare < 0:
            raise ValueError(f"a pool needs room for a kernel: cap={cap}, spare={spare}")
        self._cap = cap
        self._spare = spare
        self._source = source or FreshKernels()
        self._room = asyncio.Semaphore(cap)
        self._spares: deque[asyncio.Task[KernelProcess]] = deque()
        self._taken: set[KernelProcess] = set()
        self._starting = 0
        self._closed = False

    @property
    def alive(self) -> int:
        """Kernels that run or are being started, those in reserve included."""
        return len(self._taken) + self._starting + len(self._spares)

    def warm(self) -> None:
        """Start what is kept in reserve. `take` sees to it by itself; this is for the time before."""
        while not self._closed and len(self._spares) < self._spare and self.alive < self._cap:
            self._spares.append(asyncio.get_running_loop().create_task(self._source.acquire()))

    async def acquire(self) -> KernelProcess:
        """A started kernel without a context, the one kept ready if there is one. Raises KernelStartError or
        SandboxRefused; KernelStartError when the pool is closed."""
        await self._room.acquire()
        try:
            self._refuse_if_closed()
            kernel = await self._ready() or await self._fresh()
            self._taken.add(kernel)
        except BaseException:
            self._room.release()
            raise
        if self._closed:
            await self.release(kernel)
            self._refuse_if_closed()
        self.warm()
        return kernel

    async def release(self, kernel: KernelProcess) -> None:
        """End a kernel that `take` gave. Safe to call twice."""
        try:
            await self._source.release(kernel)
        finally:
            if kernel in self._taken:
                self._taken.remove(kernel)
                self._room.release()
                self.warm()

    async def close(self) -> None:
        """End every kernel; sandboxes that still use one find it dead. Safe to call twice."""
        self._closed = True
        spares, self._spares = list(self._spares), deque()
        for task in spares:
            task.cancel()
        for outcome in await asyncio.gather(*spares, return_exceptions=True):
            if isinstance(outcome, KernelProcess):
                await self._source.release(outcome)
        await asyncio.gather(*map(self.release, list(self._taken)))

    async def __aenter__(self) -> Self:
        self.warm()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self.close()

    def _refuse_if_closed(self) -> None:
        if self._closed:
            raise KernelStartError("the pool is closed")

    async def _ready(self) -> KernelProcess | None:
        """A kernel from the reserve, once it has started; None when there is none that lives."""
        while self._spares:
            task = self._spares.popleft()
            self._starting += 1
            try:
                kernel = await asyncio.shield(task)
            except asyncio.CancelledError:
                # Who asked went away: the kernel stays in reserve, for the next one or for `close`.
                self._spares.appendleft(task)
                if self._closed:
                    await self.close()
                raise
            except Exception:
                # It could not be started. The next attempt says why, to the one who asked.
                return None
            finally:
                self._starting -= 1
            if kernel.alive:
                return kernel
            await self._source.release(kernel)
        return None

    async def _fresh(self) -> KernelProcess:
        self._starting += 1
        try:
            return await self._source.acquire()
        finally:
            self._starting -= 1
