"""The Ray actor on a node: runs jobs with the local engine."""

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
"""Errors that would fail every job of a batch. They are sent as a Failure and raised by the driver."""
NOT_HERE = "NotHere"
"""The type of a Failure whose task names a path that this node does not have. Its message names the node."""


class Worker:
    """The class of the actors: runs all jobs it gets at the same time.

    API keys come from the environment of the node; none is sent.
    """

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
        """Open the journal and create the models. Return the failure if that is impossible.

        `version` is that of the driver. Another version could read jobs or journals differently.
        """
        try:
            if version != __version__:
                raise ConfigurationError(
                    f"its rlm-kernel is {__version__}, not {version}: install the same version on every node"
                )
            await self._local_engine()
        except tuple(FATAL.values()) as error:
            return Failure(type(error).__name__, f"{error} (on node {socket.gethostname()})")
        return None

    async def run(self, job: BatchJob) -> BatchOutcome:
        """Run a job."""
        task = asyncio.ensure_future(self._run(job))
        self._running.add(task)
        try:
            return await task
        finally:
            self._running.discard(task)

    async def stop(self) -> None:
        """Interrupt the running jobs, which can then be resumed, and release everything."""
        for task in self._running:
            task.cancel()
        await asyncio.gather(*self._running, return_exceptions=True)
        await self._stack.aclose()

    async def _run(self, job: BatchJob) -> BatchOutcome:
        try:
            engine = await self._local_engine()
            job.task.sources()
            return await engine.run(job)
        except DocumentError as error:
            return BatchOutcome(None, Failure(NOT_HERE, f"{error} (on node {socket.gethostname()})"))
        except tuple(FATAL.values()) as error:
            return BatchOutcome(None, Failure(type(error).__name__, str(error)))

    async def _local_engine(self) -> LocalEngine:
        async with self._entering:
            if self._engine is None:
                engine = LocalEngine(self._models.rlm(self._limits, self._settings), slots=self._slots)
                self._engine = await self._stack.enter_async_context(engine)
            return self._engine
