"""The local engine: a run in this process for each task, each in its own kernel from a pool."""

from __future__ import annotations

import time
from contextlib import AsyncExitStack
from types import TracebackType
from typing import Self

from rlm.batch.job import BatchJob, BatchOutcome, Failure
from rlm.errors import ConfigurationError, JournalError, RLMError
from rlm.journal import Journal
from rlm.journal.checks import damage_reported
from rlm.playback.recording import Recording
from rlm.prompts import PromptError
from rlm.results import RunResult, Usage
from rlm.runs.setup import make_room, open_journal
from rlm.runtime import RLM
from rlm.sandbox.errors import SandboxError, SandboxRefused
from rlm.sandbox.host.pool import KernelPool

__all__ = ["LocalEngine"]

_PRUNE_SECONDS = 300.0


class LocalEngine:
    """Runs up to `slots` jobs at a time with one RLM and its journal, within `async with`.

    No kernel serves two tasks. A job whose run is in the journal is resumed, whichever process started it.
    The caller must ensure that no other process runs the same job.
    """

    def __init__(self, rlm: RLM, *, slots: int) -> None:
        self.slots = slots
        self._rlm = rlm
        self._prune_at = 0.0
        self._stack = AsyncExitStack()
        self._journal: Journal
        self._kernels: KernelPool

    async def run(self, job: BatchJob) -> BatchOutcome:
        """Return the result, or the task's failure.

        Raises errors that would fail every other task too: SandboxRefused, ConfigurationError, JournalError.
        """
        try:
            return BatchOutcome(await self._run(job))
        except (SandboxRefused, ConfigurationError, JournalError):
            raise
        except (RLMError, PromptError, SandboxError) as error:
            return BatchOutcome(
                None, Failure(type(error).__name__, str(error), await self._usage(job.run_id))
            )

    async def _usage(self, run_id: str) -> tuple[Usage, ...]:
        """Return what a failed run used."""
        if not await self._journal.holds(run_id):
            return ()
        with damage_reported(run_id):
            return Recording.of(await self._journal.events(run_id)).spent.usage

    async def _run(self, job: BatchJob) -> RunResult:
        await self._prune_journal()
        rlm = self._rlm.sharing(self._kernels, self._journal, job.limits)
        task = job.task
        sources = task.sources()
        if await self._journal.holds(job.run_id):
            return await rlm.resume(job.run_id, context=sources, take_over=True, cost_usd=job.limits.max_cost)
        return await rlm.run(task.task, sources, schema=task.schema, run_id=job.run_id)

    async def _prune_journal(self) -> None:
        """Keep the journal within its size. Runs rarely, because it reads the whole journal."""
        if time.monotonic() >= self._prune_at:
            self._prune_at = time.monotonic() + _PRUNE_SECONDS
            await make_room(self._journal, self._rlm.settings)

    async def __aenter__(self) -> Self:
        async with AsyncExitStack() as stack:
            stack.push_async_callback(self._rlm.aclose)
            self._journal = await stack.enter_async_context(open_journal(self._rlm.settings))
            self._kernels = self._rlm.kernels(self.slots)
            stack.push_async_callback(self._kernels.close)
            self._stack = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        await self._stack.aclose()
