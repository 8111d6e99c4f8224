"""What runs on a node: the local engine, within a Ray actor."""

from __future__ import annotations

import asyncio
import logging
import socket
from contextlib import AsyncExitStack

from rlm.batch import BatchJob, BatchOutcome, Failure, LocalEngine, RunModels
from rlm.errors import ConfigurationError, DocumentError, JournalError
from rlm.sandbox.errors import SandboxRefused
from rlm.settings import Limits, Settings
from rlm.version import __version__

__all__ = ["FATAL", "NOT_HERE", "Worker"]

FATAL = {kind.__name__: kind for kind in (SandboxRefused, ConfigurationError, JournalError)}
"""What would fail every job of a batch: it is sent as a Failure, and raised at the other end."""
NOT_HERE = "NotHere"
"""The type of a Failure whose task names a path that this node does not have. It names the node."""


class Worker:
    """An actor's class: runs jobs on its node, as many at a time as it is sent. Models' keys are those of the
    node's own environment: none is sent."""

    def __init__(self, models: RunModels, limits: Limits, settings: Settings, slots: int) -> None:
        self._models = models
        self._limits = limits
        self._settings = settings
        self._slots = slots
        self._stack = AsyncExitStack()
        self._engine: LocalEngine | None = None
        self._entering = asyncio.Lock()
        self._running: set[asyncio.Task[BatchOutcome]] = set()
        logging.getLogger("rlm").addHandler(logging.NullHandler())

    async def ready(self, version: str) -> Failure | None:
        """Open the journal, make the models; why that can't be done, if it can't. `version` is that of who
        will send the jobs: another one's would not be understood, or would go on differently."""
        try:
            if version != __version__:
                raise ConfigurationError(
                    f"rlm-kernel is {__version__} there and {version} here: install the same on every node"
                )
            await self._entered()
        except tuple(FATAL.values()) as error:
            return Failure(type(error).__name__, f"{error} (on node {socket.gethostname()})")
        return None

    async def run(self, job: BatchJob) -> BatchOutcome:
        """What came of a job."""
        task = asyncio.ensure_future(self._run(job))
        self._running.add(task)
        try:
            return await task
        finally:
            self._running.discard(task)

    async def stop(self) -> None:
        """Interrupt what runs, so that it can be gone on with, and let go of everything."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._stack.aclose()

    async def _run(self, job: BatchJob) -> BatchOutcome:
        try:
            engine = await self._entered()
            job.task.sources()
            return await engine.run(job)
        except DocumentError as error:
            return BatchOutcome(None, Failure(NOT_HERE, f"{error} (on node {socket.gethostname()})"))
        except tuple(FATAL.values()) as error:
            return BatchOutcome(None, Failure(type(error).__name__, str(error)))

    async def _entered(self) -> LocalEngine:
        async with self._entering:
            if self._engine is None:
                engine = LocalEngine(self._models.rlm(self._limits, self._settings), slots=self._slots)
                self._engine = await self._stack.enter_async_context(engine)
            return self._engine
